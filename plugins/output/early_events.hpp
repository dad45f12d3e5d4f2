// SPDX-License-Identifier: Apache-2.0
//
// Events of a job, as lines, that come while standard output is not opened yet, or never is, as the job has failed
// before.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/print.hpp"

namespace nacre::plugins {

class EarlyEvents {
 public:
  void add(std::string_view line) {
    lines_ += line;
    if (is_over_) print();
  }
  // Those that are kept: standard output is open now.
  [[nodiscard]] std::string take() { return std::exchange(lines_, {}); }
  // Standard output will not be opened: they are printed, and so is what comes from now on.
  void end() {
    is_over_ = true;
    print();
  }

 private:
  void print() {
    if (lines_.empty()) return;
    print_out("{}", take());
    // A reader that has gone needs no event.
    static_cast<void>(flush_out());
  }

  std::string lines_;
  bool is_over_ = false;
};

}  // namespace nacre::plugins
