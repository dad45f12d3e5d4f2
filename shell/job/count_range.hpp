// SPDX-License-Identifier: Apache-2.0
//
// How many of a resource a jobspec asks for: a number, or those that Flux RFC 14 describes by an object {min, max,
// operator, operand}, an idset (RFC 22), or text as "2-8:2:*" (RFC 45).
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.hpp"
#include "base/result.hpp"
#include "value/idset.hpp"

namespace nacre::job {

class CountRange {
 public:
  // Errors name the place. No count is 0 or more than Jobspec::kMaxCount.
  static Result<CountRange> read(const JsonAt& count);
  CountRange(std::uint32_t number) : min_(number), max_(number) {}  // NOLINT: a number is such a range

  [[nodiscard]] std::uint32_t min() const { return min_; }
  [[nodiscard]] bool is_fixed() const { return !ids_ && max_ && *max_ == min_; }
  [[nodiscard]] bool contains(std::uint32_t count) const;

 private:
  CountRange(std::uint32_t min, std::optional<std::uint32_t> max) : min_(min), max_(max) {}
  static Result<CountRange> of_object(const JsonAt& count);
  static Result<CountRange> of_text(const JsonAt& count);
  static Result<void> check(const JsonAt& count, const CountRange& range);

  std::uint32_t min_;
  std::optional<std::uint32_t> max_;  // none: no limit
  char operator_ = '+';
  std::uint32_t operand_ = 1;
  std::optional<value::Idset> ids_;  // just these
};

}  // namespace nacre::job
