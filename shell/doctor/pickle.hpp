// SPDX-License-Identifier: Apache-2.0
//
// Reads a pickle of Python, protocols 2 to 4, as data: dicts, lists, tuples, texts, numbers, True, False and
// None. Nothing of it is run: one that names a function or a class is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre::doctor {

struct PickleValue {
  enum class Kind : std::uint8_t { none, boolean, integer, number, text, list, dict };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // also of a boolean
  double number = 0;
  std::string_view text;
  std::vector<std::uint32_t> items;  // of a list or a tuple; of a dict keys and values by turns
};

class Pickle {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  static constexpr std::size_t kMostValues = 1'000'000;
  static constexpr std::size_t kMostItems = 4'000'000;  // in all lists and dicts
  static constexpr std::size_t kMostDepth = 64;         // lists and dicts that are open at a time

  // `bytes` have to stay as long as it does. An error names the place.
  static Result<Pickle> read(std::string_view bytes);

  [[nodiscard]] const PickleValue& root() const { return values_[root_]; }
  [[nodiscard]] const PickleValue& at(std::uint32_t index) const { return values_[index]; }
  // The value of a key of a dict; null: it has none, or is no dict.
  [[nodiscard]] const PickleValue* member(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::vector<PickleValue> values_;
  std::uint32_t root_ = 0;
};

}  // namespace nacre::doctor
