// SPDX-License-Identifier: Apache-2.0
//
// Beats: the numbers that the leader gives them, and what the others learn from these (rule 10 of doc/protocol.md).
#pragma once

#include <cstdint>

#include "overlay/options.hpp"

namespace nacre::overlay {

class Pulse {
 public:
  explicit Pulse(const OverlayOptions& options) : options_(options) {}

  void begin(Time now) { made_ = now; }
  // The number of the leader's next beat.
  std::uint64_t make(Time now);
  // False: an old beat.
  bool receive(std::uint64_t number, Time now);
  // The feeder lives, but passes no beats on.
  void feeder_lives(Time now) { lives_ = now; }
  // The node was stopped until now. If no beat has come since the last such time, it gets no more time.
  void wake(Time now);

  // Of the last beat; 0: none yet.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // When the last beat was made, as far as this node knows.
  [[nodiscard]] Time made() const { return made_; }
  // When a node at this depth of the tree has waited too long for a beat, and dials the leader.
  [[nodiscard]] Time starving_at(std::uint32_t depth) const;
  // When the node has to end.
  [[nodiscard]] Time fence_at() const;

 private:
  const OverlayOptions& options_;
  std::uint64_t number_ = 0;
  Time made_{};
  Time least_delay_ = Time::max();  // the least time between a beat's number (the leader's clock) and its arrival
  Time woke_{};
  Time lives_{};
};

}  // namespace nacre::overlay
