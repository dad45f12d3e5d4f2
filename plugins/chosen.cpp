// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "builtins.hpp"
#include "plugin/loader.hpp"
#include "pmi_options.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kPmix = "pmi/pmix.so";  // below a directory of the searchpath, as it is not for every job

}  // namespace

Result<void> load_chosen(plugin::Host& host) {
  auto options = PmiOptions::read(host.options());
  // What is wrong with the option is for the plugin `pmi` to say.
  if (!options || !options->pmix || host.stack().find("pmix") != nullptr) return {};
  auto loaded = plugin::load(host, kPmix, Json::object());
  if (!loaded) return in("pmi=pmix", Error(loaded.error()));
  return {};
}

}  // namespace nacre::plugins
