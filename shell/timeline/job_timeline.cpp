// SPDX-License-Identifier: Apache-2.0
#include "timeline/job_timeline.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::timeline {

void ShellTimeline::take(const TimelineBatch& batch) {
  std::size_t room = kMostEvents - std::min(kMostEvents, events.size());
  auto end = batch.events.begin() + static_cast<std::ptrdiff_t>(std::min(room, batch.events.size()));
  events.insert(events.end(), batch.events.begin(), end);
  if (!batch.names.empty()) names = batch.names;
  dropped = std::max(dropped, batch.dropped);
  dropped_here += static_cast<std::uint64_t>(batch.events.end() - end);
}

std::string ShellTimeline::place() const {
  if (host.empty()) return fmt::format("shell {}", shell);
  return shares_host ? fmt::format("shell {} on {}", shell, host) : host;
}

const std::string& ShellTimeline::name_of(const TimelineEvent& event) const {
  static const std::string kNone;
  return event.name < names.size() ? names[event.name] : kNone;
}

}  // namespace nacre::timeline
