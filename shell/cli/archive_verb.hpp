// SPDX-License-Identifier: Apache-2.0
//
// A line on a terminal that shows how far a copy is, once it has taken a while. The functions return the text to be
// written; they write nothing themselves.
#pragma once

#include "archive/entry.hpp"

namespace nacre::cli {

class ProgressLine {
 public:
  static constexpr double kBeforeFirst = 1.0;  // seconds before the first line
  static constexpr double kEvery = 0.2;        // seconds between two lines

  // `now`: monotonic seconds, here and below.
  explicit ProgressLine(double now) : due_(now + kBeforeFirst) {}

  // The new line; empty if it is not time yet.
  [[nodiscard]] std::string update(const archive::Progress& progress, double now);
  // What removes the line, if there is one.
  [[nodiscard]] std::string clear();

 private:
  double due_;
  bool visible_ = false;
};

// "1.5 GiB"; below 1 KiB "700 bytes".
[[nodiscard]] std::string human_size(std::uint64_t bytes);

}  // namespace nacre::cli
