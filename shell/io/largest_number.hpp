// SPDX-License-Identifier: Apache-2.0
//
// The largest number that lines have behind a word, as programs print how far they are: "step 40", "Step: 40/1000",
// "global_step=4.5e3", "{'step': 40}". The word may have capitals or not, but no letter or digit stands before it.
#pragma once

#include "base/usual.hpp"

namespace nacre::io {

class LargestNumber {
 public:
  static constexpr std::size_t kMostLine = 4096;  // bytes of a line that are looked at

  explicit LargestNumber(std::string word);

  void add(std::string_view bytes);  // of the stream, as they come; a carriage return ends a line, too
  void end_line();                   // what comes next is no part of the line so far

  [[nodiscard]] std::optional<double> value() const { return value_; }  // none: there was none yet

 private:
  void look(std::string_view line);

  std::string word_;  // in lower case
  std::string line_;  // the beginning of one that is not complete
  std::optional<double> value_;
};

}  // namespace nacre::io
