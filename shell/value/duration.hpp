// SPDX-License-Identifier: Apache-2.0
//
// Flux Standard Duration, RFC 23: "1.5h", "30s", "100ms", "infinity". A number in the form of strtod(3) in the C
// locale, and a unit, one of ms, s (the default), m, h, d; infinity has none. Never negative, never NaN.
#pragma once

#include "base/result.hpp"

namespace nacre::value {

class Duration {
 public:
  static constexpr std::size_t kMaxText = 256;  // bytes

  Duration() = default;
  // Refuses signs other than one '+', blanks, and numbers that a double cannot hold.
  static Result<Duration> parse(std::string_view text);
  static Duration of_seconds(double seconds) { return Duration(seconds); }  // not negative
  static Duration infinite() { return Duration(std::numeric_limits<double>::infinity()); }

  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] bool is_infinite() const { return std::isinf(seconds_); }
  // FSD that parses back to exactly this value: in the largest unit in which it is at least 1 and has at most three
  // decimals ("1.5h", "90s" as "1.5m", "100s"); if there is none, in seconds with all digits.
  [[nodiscard]] std::string str() const;

  auto operator<=>(const Duration&) const = default;

 private:
  explicit Duration(double seconds) : seconds_(seconds) {}
  double seconds_ = 0;
};

}  // namespace nacre::value
