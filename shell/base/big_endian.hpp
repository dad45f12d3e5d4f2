// SPDX-License-Identifier: Apache-2.0
//
// Unsigned numbers as bytes, the highest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nacre {

template <typename T>
void append_number(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
    out += static_cast<char>((value >> shift) & 0xff);
}

// Takes a number off the beginning of `bytes`, which has enough of them.
template <typename T>
T take_number(std::string_view& bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | static_cast<unsigned char>(bytes[i]));
  }
  bytes.remove_prefix(sizeof(T));
  return value;
}

}  // namespace nacre
