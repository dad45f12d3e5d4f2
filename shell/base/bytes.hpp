// SPDX-License-Identifier: Apache-2.0
//
// Bytes as text, base64 (RFC 4648), and unsigned numbers as bytes, the highest first.
#pragma once

#include "base/usual.hpp"

namespace nacre {

// Bytes as text: base64 (RFC 4648, with padding).

[[nodiscard]] constexpr std::size_t base64_size(std::size_t bytes) { return (bytes + 2) / 3 * 4; }

// Appends `bytes`, without quotes.
void append_base64(std::string& out, std::string_view bytes);

// None: there is another character, or the length is no multiple of 4.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

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

// `N` bytes for one read, which are not set before. On the heap: a shell has the stack that its user's limit leaves
// it, which may be 64 KiB (`ulimit -s`), and -Wframe-larger-than refuses an array of that size on it.
template <std::size_t N>
class HeapBuffer {
 public:
  [[nodiscard]] char* data() { return bytes_.get(); }
  [[nodiscard]] static constexpr std::size_t size() { return N; }

 private:
  std::unique_ptr<char[]> bytes_ = std::make_unique_for_overwrite<char[]>(N);
};

}  // namespace nacre
