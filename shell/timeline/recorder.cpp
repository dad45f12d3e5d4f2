// SPDX-License-Identifier: Apache-2.0
#include "timeline/recorder.hpp"

namespace nacre::timeline {

Time now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Recorder::turn_on() {
  if (std::exchange(is_on_, true)) return;
  for (auto [time, kind] : {std::pair{early.booted, Kind::booted}, std::pair{early.joining, Kind::joining},
                            std::pair{early.joined, Kind::joined}}) {
    if (time != 0) add_at(time, kind);
  }
}

void Recorder::turn_off() {
  is_on_ = false;
  events_ = std::vector<TimelineEvent>();
  names_ = std::vector<std::string>();
  dropped_ = 0;
}

void Recorder::keep(const TimelineEvent& event) {
  std::size_t most = is_of_rank(event.kind) ? kMostEvents - kForShell : kMostEvents;
  if (events_.size() >= most)
    ++dropped_;
  else
    events_.push_back(event);
}

// The first name is "": for events without a name, and for those that come when there are too many names.
std::uint16_t Recorder::index_of(std::string_view name) {
  if (names_.empty()) names_.emplace_back();
  name = name.substr(0, kMostName);
  auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<std::uint16_t>(found - names_.begin());
  if (names_.size() >= kMostNames) return 0;
  names_.emplace_back(name);
  return static_cast<std::uint16_t>(names_.size() - 1);
}

}  // namespace nacre::timeline
