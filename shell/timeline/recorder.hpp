// SPDX-License-Identifier: Apache-2.0
//
// What one shell has kept so far. While it is off, nothing is kept and nothing allocated: a call costs one `if`.
#pragma once

#include "base/usual.hpp"

namespace nacre::timeline {

// What a shell keeps of what happens in a job, and when: events of 24 bytes.

// Nanoseconds of a monotonic clock, which no change of the time of day moves. Each host has its own clock, with its
// own start.
using Time = std::int64_t;

// The numbers go to other shells: doc/protocol.md, "The timeline", has them.
enum class Kind : std::uint16_t {
  booted = 1,        // the shell's program has begun
  joining = 2,       // it enters the collective by which the shells come together
  joined = 3,        // all shells have
  phase_begins = 4,  // `name`: what the shell does
  phase_ends = 5,
  enters = 6,  // `name`: a barrier of the shells
  passes = 7,
  hold_begins = 8,  // `name`: a plugin makes the start of the tasks wait
  hold_ends = 9,
  end_hold_begins = 10,  // the same for the end of the job
  end_hold_ends = 11,
  agent_starts = 12,  // `subject`: the shell that it starts; `name`: its program
  agent_joined = 13,  // `subject`: that shell has joined this one
  spawn = 14,         // `subject`, here and below: the rank
  exec = 15,          // its program has begun
  not_started = 16,   // or could not be
  first_output = 17,
  pmi_init = 18,
  pmi_finalize = 19,
  exit = 20,    // `value`: how, as wait(2) has it
  memory = 21,  // `value`: bytes of all processes of the job on this node
  cpu = 22,     // `value`: microseconds of processor time that they have used so far
  mark = 23,    // `name`: what a plugin has noted; `subject`: the rank, or kNoRank
};
inline constexpr auto kLastKind = static_cast<std::uint16_t>(Kind::mark);

inline constexpr std::uint32_t kNoRank = UINT32_MAX;
inline constexpr const char* kSpawnPhase = "spawn";  // the phase in which a shell starts its tasks

struct TimelineEvent {
  Time time = 0;
  std::int64_t value = 0;
  std::uint32_t subject = 0;
  Kind kind = Kind::booted;
  std::uint16_t name = 0;  // an index into the shell's names

  bool operator==(const TimelineEvent&) const = default;
};
static_assert(sizeof(TimelineEvent) == 24);

[[nodiscard]] constexpr bool is_of_rank(Kind kind) {
  return (kind >= Kind::spawn && kind <= Kind::exit) || kind == Kind::mark;
}

// The current time on this host.
[[nodiscard]] Time now();

class Recorder {
 public:
  static constexpr std::size_t kMostEvents = std::size_t{64} << 10;
  static constexpr std::size_t kForShell = 1024;  // of these, which events of ranks do not take
  static constexpr std::size_t kMostNames = 256;
  static constexpr std::size_t kMostName = 64;  // bytes of a name; the rest is cut

  // When a shell begins it does not know yet whether it has to record: it keeps these three for that.
  struct Early {
    Time booted = 0, joining = 0, joined = 0;
  };
  Early early;

  // From here on it keeps what happens, and what is in `early`.
  void turn_on();
  void turn_off();
  [[nodiscard]] bool is_on() const { return is_on_; }

  void add(Kind kind, std::uint32_t subject = 0, std::int64_t value = 0) {
    if (is_on_) keep({now(), value, subject, kind, 0});
  }
  void add(Kind kind, std::string_view name, std::uint32_t subject = 0) {
    if (is_on_) keep({now(), 0, subject, kind, index_of(name)});
  }
  void add_at(Time time, Kind kind, std::uint32_t subject = 0, std::string_view name = {}) {
    if (is_on_) keep({time, 0, subject, kind, index_of(name)});
  }

  // In the order in which they were kept, which need not be that of their times. When there are too many the newest
  // are dropped.
  [[nodiscard]] const std::vector<TimelineEvent>& events() const { return events_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

  // `act` is called before this shell enters the exit barrier, after which it sends no more bulk data.
  void when_closing(std::function<void()> act) { on_closing_ = std::move(act); }
  void closing() {
    if (on_closing_) on_closing_();
  }

 private:
  void keep(const TimelineEvent& event);
  std::uint16_t index_of(std::string_view name);

  bool is_on_ = false;
  std::vector<TimelineEvent> events_;
  std::vector<std::string> names_;
  std::uint64_t dropped_ = 0;
  std::function<void()> on_closing_;
};

}  // namespace nacre::timeline
