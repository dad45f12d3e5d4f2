// SPDX-License-Identifier: Apache-2.0
//
// An option of a command line: its names, where its value goes, and what is wrong with a value.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre::cli {

// Takes a value. An error says what was expected, without the name of the option.
using TakeValue = std::function<Result<void>(const std::string& value)>;

// An option, or a word behind the options, which has a name without dashes.
class Option {
 public:
  enum class Value { none, behind_equals, required };

  Option(const char* names, TakeValue take, const char* help, Value value);

  // What --help shows for the value.
  Option* option_text(const char* text);
  Option* description(const char* text);
  Option* required();
  Option* repeatable();
  // Given alone it is enough: nothing else is checked.
  Option* suffices();
  // `looks` returns a Result; its error is why a value is refused.
  template <typename Check>
  Option* check(Check looks) {
    checks_.push_back([looks](const std::string& value) -> Result<void> {
      CHECK_OK(looks(value));
      return {};
    });
    return this;
  }
  // These other options, by a name of each, must not be given too, or have to be.
  Option* excludes(std::initializer_list<const char*> others);
  Option* needs(std::initializer_list<const char*> others);

  [[nodiscard]] const std::string& name() const;  // for messages: "--ntasks"
  [[nodiscard]] bool has_name(std::string_view name) const;
  [[nodiscard]] bool is_word() const { return !names_[0].starts_with('-'); }

 private:
  friend class CommandLine;

  [[nodiscard]] std::string shown() const;  // "-n,--ntasks N"
  // `value`: none if only the option was there; `by_equals`: it was behind a '='.
  Result<void> take(const std::optional<std::string>& value, bool by_equals);

  std::vector<std::string> names_;  // "-n", "--ntasks"
  TakeValue take_;
  const char* help_;
  Value value_;
  std::size_t group_ = 0;
  const char* text_ = "";
  bool required_ = false, repeatable_ = false, suffices_ = false;
  std::vector<TakeValue> checks_;
  std::vector<const char*> excludes_, needs_;
  std::size_t count_ = 0;
};

// Checks: that it is one of these words; that it is not empty, where `what` is "a file".
[[nodiscard]] TakeValue one_of(std::vector<std::string> words);
[[nodiscard]] TakeValue not_empty(const char* what);

struct NumberRange {
  double least = -HUGE_VAL;
  double most = HUGE_VAL;

  [[nodiscard]] Error expected(const std::string& text) const;  // "expected a number from 1 to 4, got 'x'"
};

}  // namespace nacre::cli
