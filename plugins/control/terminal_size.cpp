// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/terminal_size.hpp"

#include <cstdint>

namespace nacre::plugins {

Json json_of(const winsize& size) { return {{"rows", size.ws_row}, {"columns", size.ws_col}}; }

Result<winsize> terminal_size_of(const JsonAt& at) {
  winsize out{};
  out.ws_row = static_cast<std::uint16_t>(TRY(TRY(at.at("rows")).integer(1, UINT16_MAX)));
  out.ws_col = static_cast<std::uint16_t>(TRY(TRY(at.at("columns")).integer(1, UINT16_MAX)));
  return out;
}

}  // namespace nacre::plugins
