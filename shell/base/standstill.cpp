// SPDX-License-Identifier: Apache-2.0
#include "base/standstill.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/process_stat.hpp"

namespace nacre {
namespace {

bool stands_still(std::optional<char> state) { return state == 'T' || state == 't' || state == 'D'; }

}  // namespace

std::optional<char> process_state(pid_t pid) {
  auto stat = ProcessStat::of(pid);
  return stat ? std::optional(stat->state) : std::nullopt;
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
