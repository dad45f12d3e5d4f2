// SPDX-License-Identifier: Apache-2.0
//
// How long things took, for people: the steps of the launch one after the other, who came last in each, and why.
// The members of the JSON are in nacre-timeline(1).
#pragma once

#include "base/json_fwd.hpp"
#include "timeline/facts.hpp"

namespace nacre::timeline {

// Who came last.
struct Last {
  std::uint32_t shell = 0;
  std::string place;                  // a host, or "shell 7"
  std::optional<std::uint32_t> rank;  // the task, where one is meant
  std::string why;                    // "its prolog took"; "": the timeline does not explain it
  Time time = 0;                      // that it took
  bool is_slowest = false;            // it took longest, `time`, but did not come last

  bool operator==(const Last&) const = default;
};

struct LaunchStep {
  std::string name;  // "init barrier"
  Time time = 0;     // since the end of the step before
  std::optional<Last> last;

  bool operator==(const LaunchStep&) const = default;
};

struct Summary {
  Time launch = 0;  // the sum of its steps: until all tasks have been started
  std::vector<LaunchStep> launch_steps;
  bool has_launched = false;  // all shells have passed the start barrier
  // Counted from the launch, not one after the other: the first output of a task, PMI's init by all tasks that have
  // called it, the first and the last end of a task.
  std::vector<LaunchStep> run_steps;
  std::vector<LaunchStep> end_steps;  // since the last task has ended
  // How far other shells' clocks may be wrong against the leader's during the launch.
  struct ClockError {
    Time most = 0;      // Clock::kUnknown: nothing is known of one clock
    std::string place;  // whose that is; "": there is no other clock
    bool operator==(const ClockError&) const = default;
  };
  ClockError clocks;
  // Shells of which a part is missing.
  struct Missing {
    static constexpr std::size_t kMostPlaces = 64;
    std::vector<std::string> places;
    std::uint64_t others = 0;  // beyond these
    void add(std::string place);
    bool operator==(const Missing&) const = default;
  };
  Missing lost, late;
  std::uint64_t dropped = 0;  // events

  [[nodiscard]] Json json() const;
  static Result<Summary> parse(const Json& json);
  bool operator==(const Summary&) const = default;
};

[[nodiscard]] Summary summary_of(const JobTimeline& job, const Facts& facts);

// A few lines, each with `prefix`.
[[nodiscard]] std::string text_of(const Summary& summary, const std::string& prefix);

}  // namespace nacre::timeline
