// SPDX-License-Identifier: Apache-2.0
//
// What the leader has of the timelines of all shells.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "timeline/batch.hpp"
#include "timeline/clock.hpp"
#include "timeline/event.hpp"

namespace nacre::timeline {

// Whether all that a shell has kept is here.
enum class Presence : std::uint8_t {
  complete,
  late,  // it has not answered in time
  lost   // it was lost, and what it had not sent with it
};

struct ShellTimeline {
  static constexpr std::size_t kMostEvents = std::size_t{128} << 10;  // twice what a shell keeps

  std::uint32_t shell = 0;
  std::string host;          // "": R does not name it
  bool shares_host = false;  // another shell of the job is there, too
  std::vector<std::string> names;
  std::vector<TimelineEvent> events;
  std::uint64_t dropped = 0;       // events, by the shell
  std::uint64_t dropped_here = 0;  // likewise, as all shells have sent too many
  Clock clock;
  Presence presence = Presence::complete;

  void take(const TimelineBatch& batch);
  [[nodiscard]] std::uint64_t missing_events() const { return dropped + dropped_here; }
  // "n7", or where that is not enough "shell 7 on n7", or "shell 7".
  [[nodiscard]] std::string place() const;
  [[nodiscard]] const std::string& name_of(const TimelineEvent& event) const;  // "": it has none
};

struct JobTimeline {
  std::string job;      // its id
  std::string version;  // of nacre
  std::uint64_t tasks = 0;
  std::vector<ShellTimeline> shells;  // by rank; the first one is the leader's
  // A moment, by the leader's clock and as seconds since the Epoch.
  Time anchor = 0;
  double wall = 0;
  Time until = 0;  // by the leader's clock: what has not ended then goes on
  bool is_over = false;
};

}  // namespace nacre::timeline
