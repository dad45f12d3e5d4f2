// SPDX-License-Identifier: Apache-2.0
#include "value/grown.hpp"

#include <fmt/format.h>

namespace nacre::value {
namespace {

Result<Hostlist> hosts_in(const JsonAt& at) {
  auto named = Hostlist::parse(TRY(at.string()));
  if (!named) return at.error(named.error().message);
  if (named->empty()) return at.error("names no host");
  return *std::move(named);
}

}  // namespace

Result<GrowOrder> GrowOrder::parse(const JsonAt& at) {
  GrowOrder out;
  auto hosts = TRY(at.find("hosts"));
  auto count = TRY(at.find("count"));
  if (hosts.has_value() == count.has_value()) return invalid("expected one of hosts and count");
  if (hosts) out.hosts = TRY(hosts_in(*hosts));
  if (count) out.count = static_cast<std::uint64_t>(TRY(count->integer(1, kMostShells)));
  if (out.hosts.size() > kMostShells)
    return hosts->error(fmt::format("{} hosts; at most {} at once", out.hosts.size(), kMostShells));
  if (auto wait = TRY(at.find("wait"))) {
    out.wait = TRY(wait->number());
    if (!(*out.wait > 0 && *out.wait <= kMostWait))
      return wait->expected(fmt::format("seconds, more than 0 and at most {}", kMostWait));
  }
  if (auto all = TRY(at.find("all"))) out.all = TRY(all->boolean());
  return out;
}

}  // namespace nacre::value
