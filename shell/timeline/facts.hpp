// SPDX-License-Identifier: Apache-2.0
//
// What follows from the events of all shells, by the leader's clock.
#pragma once

#include "base/result.hpp"
#include "timeline/recorder.hpp"

namespace nacre::timeline {

// What a shell sends the leader of its timeline: doc/protocol.md, "The timeline".
struct TimelineBatch {
  static constexpr std::size_t kMostEvents = 1536;  // with the names they fit into a record

  std::uint64_t number = 0;  // of the question that it answers; 0: the shell leaves
  Time received = 0;         // when the question came to the shell
  Time sent = 0;
  bool is_last = false;               // of the answer
  std::string clock;                  // equal for shells with the same clock; "": not known
  std::uint64_t dropped = 0;          // events so far
  std::vector<std::string> names;     // all so far; in the last one
  std::vector<TimelineEvent> events;  // that were not sent before
  std::uint64_t first = 0;            // how many events the shell has sent before these

  [[nodiscard]] std::string text() const;
  // An error names what is wrong.
  static Result<TimelineBatch> parse(std::string_view text);
  bool operator==(const TimelineBatch&) const = default;
};

// What is known of the difference between a shell's clock and the leader's. Each message between the two gives a
// bound on one side, as it was sent before it was received. So a question and its answer, or a barrier, bound it
// from both sides, and the narrowest bounds count. Clocks drift, so old bounds count less.
class Clock {
 public:
  static constexpr double kMostDrift = 500e-6;      // how fast two clocks may drift apart
  static constexpr Time kWindow = 5'000'000'000;    // one bound is kept for each such window
  static constexpr std::size_t kMostBounds = 1024;  // when there are more, each second one is dropped
  static constexpr Time kUnknown = INT64_MAX;       // an uncertainty

  // The leader has sent a question and taken the answer, by its clock; the shell has received and sent, by its own.
  void add_exchange(Time sent, Time received, Time answered, Time taken);
  // The leader and the shell have both entered and passed a barrier.
  void add_barrier(Time entered, Time passed, Time shell_entered, Time shell_passed);
  // The clock is the leader's own, or one of the same host.
  void set_same() { is_same_ = true; }
  [[nodiscard]] bool is_same() const { return is_same_; }

  // The leader's time at the shell's `time`; the same if nothing is known.
  [[nodiscard]] Time to_leader(Time time) const { return is_same_ ? time : time - measured(time).value; }
  // How far that may be wrong, to either side.
  [[nodiscard]] Time uncertainty(Time time) const { return is_same_ ? 0 : measured(time).uncertainty; }
  // What has been measured, even if the clock is the same: the shell's time less the leader's, near the shell's
  // `time`.
  struct Offset {
    Time value = 0;
    Time uncertainty = kUnknown;
  };
  [[nodiscard]] Offset measured(Time time) const;

 private:
  // The offset is between `least` and `most`.
  struct Bounds {
    Time at = 0;  // by the shell's clock
    Time least = 0, most = 0;
    [[nodiscard]] Time width() const { return most - least; }
    [[nodiscard]] Time middle() const { return least + (most - least) / 2; }
  };

  void add(const Bounds& bounds);

  std::vector<Bounds> bounds_;  // in the order of `at`
  bool is_same_ = false;
};

// What the leader has of the timelines of all shells.

// Whether all that a shell has kept is here.
enum class Presence : std::uint8_t {
  complete,
  late,  // it has not answered in time
  lost   // it was lost, with what it had not sent
};

struct ShellTimeline {
  static constexpr std::size_t kMostEvents = std::size_t{128} << 10;  // twice what a shell keeps

  std::uint32_t shell = 0;
  std::string host;          // "": R does not name it
  bool shares_host = false;  // another shell of the job is there, too
  std::vector<std::string> names;
  std::vector<TimelineEvent> events;
  std::uint64_t dropped = 0;       // events, by the shell
  std::uint64_t dropped_here = 0;  // events dropped here, as all shells together have sent too many
  Clock clock;
  Presence presence = Presence::complete;

  // Takes the events that are not here yet, at most `room` of them. None if earlier ones are missing: a lost leader
  // had them, and the shell sends all again.
  void take(const TimelineBatch& batch, std::size_t room = kMostEvents);
  [[nodiscard]] std::uint64_t missing_events() const { return dropped + dropped_here; }
  // "n7", or where that is not enough "shell 7 on n7", or "shell 7".
  [[nodiscard]] std::string place() const;
  [[nodiscard]] const std::string& name_of(const TimelineEvent& event) const;  // "": it has none
};

struct JobTimeline {
  std::string job;      // its id
  std::string version;  // of nacre
  std::uint64_t tasks = 0;
  std::vector<ShellTimeline> shells;  // by rank
  std::uint32_t leader = 0;           // the shell whose clock counts
  // A moment, by the leader's clock and as seconds since the Epoch.
  Time anchor = 0;
  double wall = 0;
  Time until = 0;  // by the leader's clock: what has not ended then goes on
  bool is_over = false;
};

using When = std::optional<Time>;  // none: it has not happened, or is not known

struct Interval {
  std::string name;
  Time begin = 0;
  When end;
  [[nodiscard]] Time length(Time until) const { return end.value_or(until) - begin; }
};

// One shell's way through a barrier.
struct Passage {
  When in, out;
};

struct RankFacts {
  When spawn, exec, not_started, first_output, pmi_init, pmi_finalize, exit;
  int status = 0;  // as wait(2) has it
  struct Mark {
    Time time = 0;
    std::string name;
  };
  std::vector<Mark> marks;

  // From its start until it could work: until PMI's init or, without that, its execution.
  [[nodiscard]] Time start_time() const;
};

// The start of a shell by another one.
struct AgentFacts {
  std::uint32_t shell = 0;
  std::string program;
  Time begin = 0;
  When joined;
};

struct ShellFacts {
  When booted, joining, joined;
  std::vector<Interval> phases, holds, end_holds;
  std::map<std::string, Passage> barriers;
  When spawning, spawned;  // the first and the last task, as the phase of that name
  std::map<std::uint32_t, RankFacts> ranks;
  std::vector<AgentFacts> agents;
  std::vector<RankFacts::Mark> marks;
  struct Count {
    Time time = 0;
    std::int64_t value = 0;
  };
  std::vector<Count> memory, cpu;

  [[nodiscard]] Passage barrier(const std::string& name) const;
};

struct Facts {
  std::vector<ShellFacts> shells;  // by rank
  Time begin = 0;                  // the first moment of all
  Time until = 0;                  // not before the last one
};

inline constexpr const char* kInitBarrier = "init";
inline constexpr const char* kReadyBarrier = "ready";  // only of some jobs
inline constexpr const char* kStartBarrier = "start";
inline constexpr const char* kExitBarrier = "exit";
inline constexpr const char* kEndBarrier = "end";

// Uses the barriers that shells have passed with the leader as bounds for their clocks. To be called once.
void add_barriers_to_clocks(JobTimeline& job);

[[nodiscard]] Facts facts_of(const JobTimeline& job);

// "prolog" for the plugin hooks, before the start.
[[nodiscard]] std::string hold_name(const std::string& hold, bool at_end);

}  // namespace nacre::timeline
