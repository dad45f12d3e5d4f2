// SPDX-License-Identifier: Apache-2.0
#include "value/jobid.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "value/jobid_alphabets.hpp"

namespace nacre::value {
namespace {

constexpr std::string_view kF58Prefix = "\u0192";  // ƒ
constexpr std::size_t kEmojiBytes = 4;             // of each emoji in UTF-8
constexpr std::size_t kWords = 6;

// The number with these `digits` in `base`, the highest first.
Result<std::uint64_t> in_base(std::uint64_t base, const std::vector<std::size_t>& digits) {
  std::uint64_t value = 0;
  for (std::size_t digit : digits) {
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value)) {
      return invalid("too large for 64 bits");
    }
  }
  return value;
}

std::vector<std::size_t> digits_of(std::uint64_t value, std::uint64_t base) {
  std::vector<std::size_t> digits;
  do {
    digits.push_back(value % base);
    value /= base;
  } while (value > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [stop, code] = std::from_chars(text.data(), end, value, 16);
  if (text.empty() || code != std::errc{} || stop != end) return std::nullopt;
  return value;
}

Result<std::uint64_t> from_decimal(std::string_view text) {
  if (auto value = parse_u64(text)) return *value;
  return invalid(
      "expected a decimal number of 64 bits, 0x and hexadecimal digits, \u0192 and base58 digits, or words");
}

Result<std::uint64_t> from_hex(std::string_view digits) {
  if (auto value = parse_hex(digits)) return *value;
  return invalid("expected 0x and a hexadecimal number of 64 bits");
}

Result<std::uint64_t> from_dothex(std::string_view text) {
  auto groups = split(text, '.');
  std::uint64_t id = 0;
  bool good = groups.size() == 4;
  for (std::size_t i = 0; good && i < groups.size(); ++i) {
    auto value = parse_hex(groups[i]);
    good = value && groups[i].size() <= 4;
    if (good) id = id << 16 | *value;
  }
  if (!good) return invalid("expected four groups of up to four hexadecimal digits");
  return id;
}

Result<std::uint64_t> from_f58(std::string_view text) {
  if (text.empty()) return invalid("expected base58 digits after the prefix");
  std::vector<std::size_t> digits;
  for (char c : text) {
    std::size_t digit = kJobIdBase58.find(c);
    if (digit == std::string_view::npos) return invalid(fmt::format("{} is no base58 digit", in_quotes({&c, 1})));
    digits.push_back(digit);
  }
  return in_base(kJobIdBase58.size(), digits);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

Result<std::uint64_t> word_digit(std::string_view word) {
  std::string small(word);
  std::transform(small.begin(), small.end(), small.begin(), lower);
  for (std::size_t digit = 0; digit < kJobIdWordCount; ++digit) {
    if (jobid_word(digit) == small) return digit;
  }
  return invalid(fmt::format("{} is not in the word list", in_quotes(word)));
}

// Two groups of three words: the lower 32 bits, then the upper ones; in each group the lowest digit comes first.
Result<std::uint64_t> from_words(std::string_view text) {
  std::vector<std::string_view> words = split(text, '-');
  bool open_ended = words.front().empty() || words.back().empty();
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  if (open_ended || words.size() != kWords) {
    return invalid(fmt::format("expected {} words parted by dashes", kWords));
  }
  std::uint64_t id = 0;
  for (std::size_t group : {3U, 0U}) {
    std::uint64_t value = 0;
    for (std::size_t i : {2U, 1U, 0U}) value = value * kJobIdWordCount + TRY(word_digit(words[group + i]));
    if (value > UINT32_MAX) return invalid("three of its words are too large for 32 bits");
    id = id << 32 | value;
  }
  return id;
}

std::string utf8_emoji(std::size_t digit) {
  char32_t c = kJobIdEmoji[digit];
  auto tail = [c](int shift) { return static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  return {static_cast<char>(0xf0 | c >> 18), tail(12), tail(6), tail(0)};
}

Result<std::uint64_t> from_emoji(std::string_view text) {
  std::vector<std::size_t> digits;
  for (std::size_t at = 0; at < text.size(); at += kEmojiBytes) {
    std::string_view one = text.substr(at, kEmojiBytes);
    std::size_t digit = 0;
    while (digit < kJobIdEmoji.size() && utf8_emoji(digit) != one) ++digit;
    if (digit == kJobIdEmoji.size())
      return invalid(fmt::format("character {} is not in the emoji list", digits.size() + 1));
    digits.push_back(digit);
  }
  return in_base(kJobIdEmoji.size(), digits);
}

Result<std::uint64_t> decode(std::string_view text) {
  if (text.size() > JobId::kMaxText) return invalid(fmt::format("longer than {} bytes", JobId::kMaxText));
  // RFC 19 defines this order.
  if (text.find('.') != std::string_view::npos) return from_dothex(text);
  if (text.find('-') != std::string_view::npos) return from_words(text);
  if (text.starts_with(kF58Prefix)) return from_f58(text.substr(kF58Prefix.size()));
  if (text.starts_with('f')) return from_f58(text.substr(1));
  if (text.starts_with("\xf0\x9f")) return from_emoji(text);
  if (text.starts_with("0x")) return from_hex(text.substr(2));
  return from_decimal(text);
}

}  // namespace

Result<JobId> JobId::parse(std::string_view text) {
  auto value = decode(trim(text));
  if (!value) return in(fmt::format("job id {}", in_quotes(text)), std::move(value).error());
  return JobId(*value);
}

std::string JobId::decimal() const { return fmt::format("{}", value_); }

std::string JobId::hex() const { return fmt::format("{:#x}", value_); }

std::string JobId::dothex() const {
  return fmt::format("{:04x}.{:04x}.{:04x}.{:04x}", value_ >> 48, value_ >> 32 & 0xffff, value_ >> 16 & 0xffff,
                     value_ & 0xffff);
}

std::string JobId::f58() const { return std::string(kF58Prefix) += f58_plain().substr(1); }

std::string JobId::f58_plain() const {
  std::string out = "f";
  for (std::size_t digit : digits_of(value_, kJobIdBase58.size())) out += kJobIdBase58[digit];
  return out;
}

std::string JobId::words() const {
  auto three = [](std::uint64_t half) {
    return fmt::format("{}-{}-{}", jobid_word(half % kJobIdWordCount),
                       jobid_word(half / kJobIdWordCount % kJobIdWordCount),
                       jobid_word(half / kJobIdWordCount / kJobIdWordCount));
  };
  return three(value_ & UINT32_MAX) + "--" + three(value_ >> 32);
}

std::string JobId::emoji() const {
  std::string out;
  for (std::size_t digit : digits_of(value_, kJobIdEmoji.size())) out += utf8_emoji(digit);
  return out;
}

}  // namespace nacre::value
