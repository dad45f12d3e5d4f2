// SPDX-License-Identifier: Apache-2.0
#include "cli/option.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::cli {
namespace {

// "a, b or c"
std::string alternatives(const std::vector<std::string>& words) {
  if (words.size() < 2) return fmt::format("{}", fmt::join(words, ""));
  return fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

}  // namespace

TakeValue one_of(std::vector<std::string> words) {
  return [words = std::move(words)](const std::string& value) -> Result<void> {
    if (std::find(words.begin(), words.end(), value) != words.end()) return {};
    return invalid(fmt::format("expected {}, got {}", alternatives(words), in_quotes(value)));
  };
}

TakeValue not_empty(const char* what) {
  return [what](const std::string& value) -> Result<void> {
    if (value.empty()) return invalid(fmt::format("expected {}", what));
    return {};
  };
}

Error NumberRange::expected(const std::string& text) const {
  std::string range = std::isinf(most) ? "" : fmt::format(" from {} to {}", least, most);
  return invalid(fmt::format("expected a number{}, got {}", range, in_quotes(text)));
}

Option::Option(const char* names, TakeValue take, const char* help, Value value)
    : take_(std::move(take)), help_(help), value_(value) {
  for (std::string_view each : split(names, ',')) names_.emplace_back(each);
}

Option* Option::option_text(const char* text) {
  text_ = text;
  return this;
}

Option* Option::description(const char* text) {
  help_ = text;
  return this;
}

Option* Option::required() {
  required_ = true;
  return this;
}

Option* Option::repeatable() {
  repeatable_ = true;
  return this;
}

Option* Option::suffices() {
  suffices_ = true;
  return this;
}

Option* Option::excludes(std::initializer_list<const char*> others) {
  excludes_.assign(others);
  return this;
}

Option* Option::needs(std::initializer_list<const char*> others) {
  needs_.assign(others);
  return this;
}

const std::string& Option::name() const {
  auto is_long = [](const std::string& each) { return each.starts_with("--"); };
  auto first = std::find_if(names_.begin(), names_.end(), is_long);
  return first != names_.end() ? *first : names_[0];
}

bool Option::has_name(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

Result<void> Option::take(const std::optional<std::string>& value, bool by_equals) {
  if (value && value->empty() && by_equals && value_ != Value::none)
    return invalid(fmt::format("{}=: expected a value behind =", name()));
  if (value && value_ == Value::none)
    return invalid(fmt::format("{}: takes no value, got {}", name(), in_quotes(*value)));
  if (count_++ > 0 && value_ == Value::required && !repeatable_)
    return invalid(fmt::format("{}: give it only once", name()));
  if (value) {
    for (const TakeValue& each : checks_) CHECK_OK(in(name(), each(*value)));
  }
  return in(name(), take_(value.value_or("")));
}

std::string Option::shown() const {
  std::string out = fmt::format("{}", fmt::join(names_, ","));
  return *text_ == '\0' ? out : out + ' ' + text_;
}

}  // namespace nacre::cli
