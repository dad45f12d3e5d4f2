// SPDX-License-Identifier: Apache-2.0
//
// Joins equal warnings and errors of several shells: "nacre-shell[1]: warn: X" and, a moment later,
// "nacre-shell[3]: warn: X" become "nacre-shell[1,3]: warn: X". All else passes at once, and the lines of one shell
// stay in their order.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "event/loop.hpp"
#include "value/idset.hpp"

namespace nacre::launch {

class AlikeLines {
 public:
  static constexpr event::Seconds kMoment{0.1};
  static constexpr std::size_t kMostHeld = 64;

  using Put = std::function<void(const std::string& line)>;

  // `put` gets whole lines, each with its newline; it must not call this object.
  explicit AlikeLines(Put put) : put_(std::move(put)) {}
  ~AlikeLines() { flush(); }
  AlikeLines(const AlikeLines&) = delete;
  AlikeLines& operator=(const AlikeLines&) = delete;

  // The line has its newline.
  void add(const std::string& line);
  // Puts out the lines that are held.
  void flush();
  [[nodiscard]] bool empty() const { return held_.empty(); }

 private:
  struct Held {
    value::Idset shells;
    std::string rest;  // after "nacre-shell[...]"
  };

  Put put_;
  std::vector<Held> held_;  // in the order of their first lines
};

}  // namespace nacre::launch
