// SPDX-License-Identifier: Apache-2.0
#include "join/lost_after.hpp"

#include "job/options.hpp"

namespace nacre::join {
namespace {

constexpr double kLeast = 2;     // seconds: there is a beat each second
constexpr double kMost = 86400;  // seconds: a day; a job must not wait for a lost shell for ever

}  // namespace

Result<void> set_lost_after(group::Group& group, const job::Options& options) {
  auto option = options.at("lost-after");
  if (!option) return {};
  double seconds = TRY(job::seconds_option(*option)).seconds();
  if (seconds < kLeast || seconds > kMost) return option->expected("a time of 2s to 1d");
  group.wait_for_silent(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
  return {};
}

}  // namespace nacre::join
