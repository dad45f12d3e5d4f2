// SPDX-License-Identifier: Apache-2.0
//
// What is known of the difference between a shell's clock and the leader's. Each message between the two bounds it
// from one side: what is received was sent before. So a question and its answer, or a barrier, bound it from both
// sides, and the narrowest bounds count. Clocks drift: bounds of long ago count for less.
#pragma once

#include <cstddef>
#include <vector>

#include "timeline/recorder.hpp"

namespace nacre::timeline {

class Clock {
 public:
  static constexpr double kMostDrift = 500e-6;      // of two clocks, by which they go apart
  static constexpr Time kWindow = 5'000'000'000;    // of the bounds in it one is kept
  static constexpr std::size_t kMostBounds = 1024;  // when there are more, each second one is dropped
  static constexpr Time kUnknown = INT64_MAX;       // an uncertainty

  // The leader has sent a question and taken the answer, by its clock; the shell has received and sent, by its own.
  void add_exchange(Time sent, Time received, Time answered, Time taken);
  // Both have entered and passed a barrier.
  void add_barrier(Time entered, Time passed, Time shell_entered, Time shell_passed);
  // It is the leader's own clock, or that of the same host.
  void set_same() { is_same_ = true; }
  [[nodiscard]] bool is_same() const { return is_same_; }

  // The leader's time at the shell's `time`; the same if nothing is known.
  [[nodiscard]] Time to_leader(Time time) const;
  // How far that may be wrong, to either side.
  [[nodiscard]] Time uncertainty(Time time) const;
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

}  // namespace nacre::timeline
