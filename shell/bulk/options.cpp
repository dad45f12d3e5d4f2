// SPDX-License-Identifier: Apache-2.0
#include "bulk/options.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::bulk {
namespace {

Result<void> check_limit(const char* name, std::size_t value, std::size_t least, std::size_t most) {
  if (value >= least && value <= most) return {};
  return invalid(fmt::format("limits: {}: {} bytes; {} to {} are allowed", name, value, least, most));
}

}  // namespace

Result<void> check(const Limits& limits) {
  CHECK_OK(check_limit("record", limits.record, 1, kMaxRecord));
  // A record that has begun to come has to come to its end, whatever else waits.
  std::size_t whole = kHead + limits.record;
  CHECK_OK(check_limit("window", limits.window, whole, kMaxWindow));
  CHECK_OK(check_limit("broadcast", limits.broadcast, whole, kMaxWindow));
  const std::size_t start = kHead + 2 * kMaxEndedUp;
  CHECK_OK(check_limit("link", limits.link, std::max(whole, start), kMaxWindow));
  CHECK_OK(check_limit("write", limits.write, 1, kMaxWindow));
  if (limits.origins == 0) return invalid("limits: origins: at least 1");
  return {};
}

}  // namespace nacre::bulk
