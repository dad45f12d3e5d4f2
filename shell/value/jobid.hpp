// SPDX-License-Identifier: Apache-2.0
//
// A job's id: a 64-bit FLUID, written in any of the forms of Flux RFC 19.
#pragma once

#include "base/result.hpp"

namespace nacre::value {

class JobId {
 public:
  static constexpr std::size_t kMaxText = 256;  // bytes, without the blanks at both ends

  JobId() = default;
  explicit JobId(std::uint64_t value) : value_(value) {}
  // Reads any form: decimal, 0x hex, dotted hex (dothex), F58 (ƒ... or f...), words (mnemonic, a-b-c--d-e-f),
  // emoji; RFC 19 has the rules that distinguish them. Ignores blanks at both ends, the case of words, and the
  // number of dashes between them.
  static Result<JobId> parse(std::string_view text);

  [[nodiscard]] std::uint64_t value() const { return value_; }
  [[nodiscard]] std::string decimal() const { return fmt::format("{}", value_); }
  [[nodiscard]] std::string hex() const { return fmt::format("{:#x}", value_); }  // 0x...
  [[nodiscard]] std::string dothex() const;                                       // 0000.0000.0000.0000
  [[nodiscard]] std::string f58() const;                                          // ƒ... in UTF-8
  [[nodiscard]] std::string f58_plain() const;                                    // f..., ASCII
  [[nodiscard]] std::string words() const;                                        // a-b-c--d-e-f
  [[nodiscard]] std::string emoji() const;                                        // UTF-8
  // The form for files and messages.
  [[nodiscard]] std::string str() const { return f58_plain(); }

  auto operator<=>(const JobId&) const = default;

 private:
  std::uint64_t value_ = 0;
};

// The digits of job ids in forms other than plain numbers: data of Flux RFC 19.

// Base58: no 0, O, I, l.
inline constexpr std::string_view kJobIdBase58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

// Three words represent 32 bits: 1626 is the cube root of 2^32, rounded up. Lower case, a to z.
inline constexpr std::size_t kJobIdWordCount = 1626;
[[nodiscard]] std::string_view jobid_word(std::size_t digit);

// 576 code points, all four bytes in UTF-8 and starting with F0 9F.
extern constinit const std::u32string_view kJobIdEmoji;

}  // namespace nacre::value
