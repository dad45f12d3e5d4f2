// SPDX-License-Identifier: Apache-2.0
//
// Warnings and errors that several shells print alike come out once: of "nacre-shell[1]: warn: X" and "nacre-shell[3]: warn: X" within a moment becomes
// "nacre-shell[1,3]: warn: X". Everything else passes at once, and no line of a shell overtakes another of it.
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

  // `put` gets whole lines, each with its newline; it must not come here again.
  explicit AlikeLines(Put put) : put_(std::move(put)) {}
  ~AlikeLines() { flush(); }
  AlikeLines(const AlikeLines&) = delete;
  AlikeLines& operator=(const AlikeLines&) = delete;

  // With its newline.
  void add(const std::string& line);
  // What is held comes out.
  void flush();
  [[nodiscard]] bool empty() const { return held_.empty(); }

 private:
  struct Held {
    value::Idset shells;
    std::string rest;  // behind "nacre-shell[...]"
  };

  Put put_;
  std::vector<Held> held_;  // in the order in which the first of each came
};

}  // namespace nacre::launch
