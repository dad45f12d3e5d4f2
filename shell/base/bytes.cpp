// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"

namespace nacre {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr unsigned kSixBits = 0x3F;
constexpr std::uint8_t kNone = 0xFF;

constexpr std::array<std::uint8_t, 256> values_of_digits() {
  std::array<std::uint8_t, 256> out{};
  for (auto& each : out) each = kNone;
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    out[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::uint8_t>(i);
  return out;
}

constexpr std::array<std::uint8_t, 256> kValues = values_of_digits();

using Pair = std::array<char, 2>;

// The digits of 12 bits at a time.
constexpr std::array<Pair, 4096> pairs_of_digits() {
  std::array<Pair, 4096> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = {kDigits[i >> 6], kDigits[i & kSixBits]};
  return out;
}

constexpr std::array<Pair, 4096> kPairs = pairs_of_digits();

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  std::size_t start = out.size();
  out.resize(start + base64_size(bytes.size()), '=');
  char* to = out.data() + start;
  auto byte = [&bytes](std::size_t at) { return at < bytes.size() ? static_cast<std::uint8_t>(bytes[at]) : 0U; };
  std::size_t at = 0;
  for (const std::size_t whole = bytes.size() / 3 * 3; at < whole; at += 3, to += 4) {
    const std::uint32_t group = static_cast<std::uint8_t>(bytes[at]) << 16 |
                                static_cast<std::uint8_t>(bytes[at + 1]) << 8 |
                                static_cast<std::uint8_t>(bytes[at + 2]);
    std::memcpy(to, kPairs[group >> 12].data(), 2);
    std::memcpy(to + 2, kPairs[group & 0xFFF].data(), 2);
  }
  const std::size_t rest = bytes.size() - at;
  const std::uint32_t group = byte(at) << 16 | byte(at + 1) << 8;
  for (std::size_t i = 0; rest > 0 && i <= rest; ++i) to[i] = kDigits[group >> (18 - 6 * i) & kSixBits];
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  std::size_t digits = text.size();
  for (int i = 0; i < 2 && digits > 0 && text[digits - 1] == '='; ++i) --digits;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  for (std::size_t at = 0; at < digits; ++at) {
    std::uint8_t value = kValues[static_cast<std::uint8_t>(text[at])];
    if (value == kNone) return {};
    group = group << 6 | value;
    if (at % 4 == 0) continue;
    out += static_cast<char>(group >> (6 - 2 * (at % 4)) & 0xFF);
  }
  return out;
}

}  // namespace nacre
