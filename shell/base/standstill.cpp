// SPDX-License-Identifier: Apache-2.0
#include "base/standstill.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"

namespace nacre {
namespace {

bool stands_still(std::optional<char> state) { return state == 'T' || state == 't' || state == 'D'; }

}  // namespace

std::optional<char> process_state(pid_t pid) {
  Result<std::string> stat = read_file(fmt::format("/proc/{}/stat", pid));
  if (!stat) return std::nullopt;
  std::size_t name_end = stat->rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= stat->size()) return std::nullopt;
  return (*stat)[name_end + 2];
}

std::optional<std::string> Standstill::update(std::optional<char> state, double now) {
  if (!stands_still(state)) {
    auto since = std::exchange(since_, std::nullopt);
    if (!std::exchange(reported_, std::nullopt)) return std::nullopt;
    return fmt::format("goes on, after {} s", std::lround(now - since.value_or(now)));
  }
  if (!since_) since_ = now;
  double due = reported_ ? *reported_ + kNext : *since_ + kFirst;
  if (now < due) return std::nullopt;
  reported_ = now;
  return fmt::format("{} for {} s",
                     state == 'D' ? "has waited in the kernel, as for a file system that does not answer,"
                                  : "has been stopped by a signal",
                     std::lround(now - *since_));
}

}  // namespace nacre
