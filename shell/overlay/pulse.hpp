// SPDX-License-Identifier: Apache-2.0
//
// Beats: the leader's numbers for them, and what they tell the others (rule 10 of doc/protocol.md).
#pragma once

#include <cstdint>

#include "overlay/options.hpp"

namespace nacre::overlay {

class Pulse {
 public:
  explicit Pulse(const Options& options) : options_(options) {}

  void begin(Time now) { made_ = now; }
  // The leader's next beat.
  std::uint64_t make(Time now);
  // Whether this one is new.
  bool hear(std::uint64_t number, Time now);
  // The node was stopped until now. Without a beat since the last time it gets no more time to hear one.
  void wake(Time now);

  // Of the last beat; 0: none.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // When the last one was made, as far as this node can tell.
  [[nodiscard]] Time made() const { return made_; }
  // When a node at this depth of the tree has waited too long for the next: it dials the leader.
  [[nodiscard]] Time starving_at(std::uint32_t depth) const;
  // When it has to end.
  [[nodiscard]] Time fence_at() const;

 private:
  const Options& options_;
  std::uint64_t number_ = 0;
  Time made_{};
  Time least_delay_ = Time::max();  // of a beat's coming after its number, the leader's clock
  Time woke_{};
};

}  // namespace nacre::overlay
