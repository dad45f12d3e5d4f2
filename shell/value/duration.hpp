// SPDX-License-Identifier: Apache-2.0
//
// Flux Standard Duration, RFC 23: "1.5h", "30s", "100ms", "infinity".
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nacre::value {

class Duration {
 public:
  Duration() = default;
  static Result<Duration> parse(std::string_view text);
  static Duration of_seconds(double seconds) { return Duration(seconds); }  // not negative
  static Duration infinite();

  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] bool is_infinite() const;
  [[nodiscard]] std::string str() const;  // FSD, the largest unit that keeps it exact: "1.5h", "90s" as "1.5m"

  auto operator<=>(const Duration&) const = default;

 private:
  explicit Duration(double seconds) : seconds_(seconds) {}
  double seconds_ = 0;
};

}  // namespace nacre::value
