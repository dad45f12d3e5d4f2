// SPDX-License-Identifier: Apache-2.0
#include "base/log_line.hpp"

#include <fmt/format.h>

namespace nacre {

std::string log_line(const LogEntry& entry, std::uint32_t shell) {
  std::string line = fmt::format("nacre-shell[{}]: ", entry.shell.value_or(shell));
  if (entry.level != Level::notice) line += fmt::format("{}: ", level_name(entry.level));
  if (!entry.component.empty()) line += entry.component + ": ";
  return line + entry.message;
}

}  // namespace nacre
