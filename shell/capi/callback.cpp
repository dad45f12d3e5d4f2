// SPDX-License-Identifier: Apache-2.0
#include "capi/callback.hpp"

#include <fmt/format.h>

namespace nacre::capi {

using namespace plugin;  // NOLINT: what it makes for C

void Callback::failed(const std::string& plugin, const std::string& what, const char* why) {
  flux_shell* shell = current_shell();
  if (shell == nullptr) return;
  shell->host.raise(
      {"exec", 0, fmt::format("plugin '{}': {}: the plugin threw an exception: {}", plugin, what, why), {}});
}

}  // namespace nacre::capi
