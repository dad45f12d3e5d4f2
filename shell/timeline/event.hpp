// SPDX-License-Identifier: Apache-2.0
//
// What a shell keeps of what happens in a job, and when: events of 24 bytes.
#pragma once

#include <cstdint>

namespace nacre::timeline {

// Nanoseconds of a monotonic clock, which no change of the time of day moves. Of each host's own, from a start of
// its own.
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
  hold_begins = 8,  // `name`: a plugin lets the start of the tasks wait
  hold_ends = 9,
  end_hold_begins = 10,  // likewise, the end of the job
  end_hold_ends = 11,
  agent_starts = 12,  // `subject`: the shell that it starts; `name`: its program
  agent_joined = 13,  // `subject`: that shell has joined this one
  spawn = 14,         // `subject`, here and in those below: the rank
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

}  // namespace nacre::timeline
