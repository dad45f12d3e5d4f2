// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/announced_names.hpp"

#include <optional>
#include <string>

#include "pmi/key_exchange.hpp"

namespace nacre::plugins {
namespace {

// A name and its port, as entries.
constexpr std::string_view kPublished = "pmi.publish";
constexpr std::string_view kUnpublished = "pmi.unpublish";

}  // namespace

void announce_names(plugin::Host& host, const plugin::Plugin& plugin, pmi::Names& names) {
  names.when_changed([&host, &plugin](std::string_view name, const std::optional<std::string_view>& port) {
    pmi::Entries entry{{std::string(name), std::string(port.value_or(""))}};
    Result<void> sent = host.announce(port ? kPublished : kUnpublished, pmi::encode_entries(entry));
    if (!sent) log(host, plugin, Level::warn, "the name {}: {}", name, sent.error().message);
  });
}

void take_announced_name(plugin::Host& host, const plugin::Plugin& plugin, pmi::Names& names,
                         std::string_view topic, std::string_view bytes) {
  if (topic != kPublished && topic != kUnpublished) return;
  auto entries = pmi::decode_entries(bytes);
  if (!entries) return log(host, plugin, Level::warn, "a name of another node: {}", entries.error().message);
  for (const auto& [name, port] : *entries)
    names.changed(name, topic == kPublished ? std::optional<std::string_view>(port) : std::nullopt);
}

}  // namespace nacre::plugins
