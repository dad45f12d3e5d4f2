// SPDX-License-Identifier: Apache-2.0
#include "io/encode.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/base64.hpp"

namespace nacre::io {
namespace {

constexpr std::uint64_t kOnes = 0x0101010101010101;
constexpr std::uint64_t kHighs = 0x8080808080808080;
constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t word_at(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, kWord);
  return word;
}

// How many of the first bytes are ASCII; it stops at the 8 bytes that hold the first other one, or before.
std::size_t ascii_words(std::string_view bytes) {
  std::size_t at = 0;
  while (at + kWord <= bytes.size() && (word_at(bytes.data() + at) & kHighs) == 0) at += kWord;
  return at;
}

// Whether one of eight bytes needs an escape: '"', '\\', or below 0x20. It may also be true for a byte beyond
// ASCII.
bool has_special(std::uint64_t word) {
  auto zero_in = [](std::uint64_t value) { return (value - kOnes) & ~value & kHighs; };
  std::uint64_t low = (word - kOnes * 0x20) & ~word & kHighs;
  return (low | zero_in(word ^ kOnes * '"') | zero_in(word ^ kOnes * '\\')) != 0;
}

// The length of the UTF-8 sequence at the beginning; 0 if there is none.
std::size_t sequence(std::string_view bytes) {
  auto at = [&](std::size_t i) { return i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0U; };
  auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return at(i) >= low && at(i) <= high;
  };
  unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    unsigned low = first == 0xE0 ? 0xA0 : 0x80;   // nothing overlong
    unsigned high = first == 0xED ? 0x9F : 0xBF;  // no surrogates
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    unsigned low = first == 0xF0 ? 0x90 : 0x80;
    unsigned high = first == 0xF4 ? 0x8F : 0xBF;  // up to U+10FFFF
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void append_escape(std::string& out, char byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (byte) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\t': out += "\\t"; return;
    case '\r': out += "\\r"; return;
    default:
      out += "\\u00";
      out += kHex[static_cast<std::uint8_t>(byte) >> 4];
      out += kHex[static_cast<std::uint8_t>(byte) & 0xF];
  }
}

bool is_special(char byte) { return static_cast<std::uint8_t>(byte) < 0x20 || byte == '"' || byte == '\\'; }

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    bytes.remove_prefix(ascii_words(bytes));
    for (std::size_t i = 0; i < kWord && !bytes.empty(); ++i) {
      std::size_t size = sequence(bytes);
      if (size == 0) return false;
      bytes.remove_prefix(size);
    }
  }
  return true;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain + kWord <= text.size() && !has_special(word_at(text.data() + plain))) plain += kWord;
    std::size_t end = std::min(plain + kWord, text.size());
    while (plain < end && !is_special(text[plain])) ++plain;
    out.append(text.data(), plain);
    if (plain < end) append_escape(out, text[plain++]);
    text.remove_prefix(plain);
  }
  out += '"';
}

void append_data(std::string& out, std::string_view bytes) {
  out += "\"data\":";
  if (is_utf8(bytes)) return append_json_string(out, bytes);
  out += '"';
  append_base64(out, bytes);
  out += "\",\"encoding\":\"base64\"";
}

}  // namespace nacre::io
