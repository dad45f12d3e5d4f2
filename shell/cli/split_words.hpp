// SPDX-License-Identifier: Apache-2.0
//
// Which words of a command line belong to which option. This is all that CLI11 is asked, and only what its versions
// 1.9 to 2.5 answer alike.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nacre::cli {

struct SplitOption {
  const std::vector<std::string>* names;  // with their dashes
  bool has_value = false;                 // in the same word or the next one; else only behind a '='
};

struct GivenWord {
  std::size_t option = 0;  // its index
  std::optional<std::string> value;
  bool by_equals = false;  // --NAME=VALUE; if VALUE is not empty, a next word may be it as well
};

struct SplitWords {
  std::vector<GivenWord> given;         // in order
  std::optional<std::size_t> no_value;  // the last word is this option, of which the value is missing
  std::vector<std::string> rest;        // from the first word on that is no option, or not a known one
};

[[nodiscard]] SplitWords split_words(std::span<const SplitOption> options, const std::vector<std::string>& words);

}  // namespace nacre::cli
