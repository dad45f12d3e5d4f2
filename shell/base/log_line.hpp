// SPDX-License-Identifier: Apache-2.0
//
// A message of the log as a line for people.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.hpp"

namespace nacre {

// "nacre-shell[3]: error: output: MESSAGE", without an end of line. `shell` is this shell's rank, for entries that
// name none; the level notice is left out.
[[nodiscard]] std::string log_line(const LogEntry& entry, std::uint32_t shell);

}  // namespace nacre
