// SPDX-License-Identifier: Apache-2.0
//
// The digits of job ids in forms other than plain numbers: data of Flux RFC 19.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace nacre::value {

// Base58: no 0, O, I, l.
inline constexpr std::string_view kJobIdBase58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

// Three words represent 32 bits: 1626 is the cube root of 2^32, rounded up. Lower case, a to z.
inline constexpr std::size_t kJobIdWordCount = 1626;
[[nodiscard]] std::string_view jobid_word(std::size_t digit);

// 576 code points, all four bytes in UTF-8 and starting with F0 9F.
extern constinit const std::u32string_view kJobIdEmoji;

}  // namespace nacre::value
