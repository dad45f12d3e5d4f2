// SPDX-License-Identifier: Apache-2.0
//
// A short text that shows whether two hosts have the same bytes: FNV-1a of 64 bits. It is no protection against
// forgery.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nacre {

class Fingerprint {
 public:
  // Each piece counts by itself: ("ab", "c") is not ("a", "bc").
  void add(std::string_view piece);
  [[nodiscard]] std::string str() const;  // 16 hexadecimal digits; "-" of nothing

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
  bool is_empty_ = true;
};

}  // namespace nacre
