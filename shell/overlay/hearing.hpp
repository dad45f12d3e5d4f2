// SPDX-License-Identifier: Apache-2.0
//
// What explains a silence: when another member was heard last, and how late this node itself was then.
#pragma once

#include <deque>
#include <string>
#include <utility>

#include "overlay/options.hpp"

namespace nacre::overlay {

// The last times at which something came from one member.
class LastHeard {
 public:
  static constexpr std::size_t kMost = 4;
  static constexpr Time kApart = milliseconds(100);  // what comes sooner after one of them is none of them

  void note(Time now);
  [[nodiscard]] bool any() const { return !times_.empty(); }
  [[nodiscard]] Time last() const { return last_; }
  // "nothing has come from it for 5.2 s (before that 1, 1 and 1.3 s apart)"
  [[nodiscard]] std::string text(Time now) const;

 private:
  std::deque<Time> times_;  // the latest last
  Time last_{};             // of all
};

// How late this node's ticks were: what the process, or its host, stood still.
class Lateness {
 public:
  static constexpr std::size_t kMost = 600;
  static constexpr Time kLeast = milliseconds(5);    // what is less says nothing
  static constexpr Time kApart = milliseconds(100);  // of those that come sooner the largest is kept

  void note(Time now, Time late);
  [[nodiscard]] Time most_since(Time since) const;  // 0: none was

 private:
  std::deque<std::pair<Time, Time>> ticks_;  // when, and how late; the latest last
};

}  // namespace nacre::overlay
