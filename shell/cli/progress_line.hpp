// SPDX-License-Identifier: Apache-2.0
//
// A line on a terminal that says how far a copy is, once it has taken a while. What it wants written is returned as
// text; it writes nothing itself.
#pragma once

#include <string>

#include "archive/entry.hpp"

namespace nacre::cli {

class ProgressLine {
 public:
  static constexpr double kBeforeFirst = 1.0;  // seconds before the first
  static constexpr double kEvery = 0.2;        // seconds between two

  // `now`: monotonic seconds, here and below.
  explicit ProgressLine(double now) : due_(now + kBeforeFirst) {}

  // Writes the line anew, or is empty if it is not time yet.
  [[nodiscard]] std::string update(const archive::Progress& progress, double now);
  // Takes the line away, if there is one.
  [[nodiscard]] std::string clear();

 private:
  double due_;
  bool visible_ = false;
};

// "1.5 GiB"; below 1 KiB "700 bytes".
[[nodiscard]] std::string human_size(std::uint64_t bytes);

}  // namespace nacre::cli
