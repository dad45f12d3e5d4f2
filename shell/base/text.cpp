// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace nacre {
namespace {

constexpr std::size_t kQuotedMax = 80;

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  auto [stop, code] = std::from_chars(text.data(), end, value, 10);
  if (code != std::errc{} || stop != end || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<std::uint64_t> parse_u64(std::string_view text) { return parse_number<std::uint64_t>(text); }

std::optional<std::int64_t> parse_i64(std::string_view text) { return parse_number<std::int64_t>(text); }

std::string in_quotes(std::string_view text) {
  bool cut = text.size() > kQuotedMax;
  std::string out = "'";
  for (char c : text.substr(0, kQuotedMax)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += cut ? "...'" : "'";
  return out;
}

bool glob_match(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// Asked for each subscription by each start: find_first_of() is a call for each character.
bool is_glob(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c == '*' || c == '?' || c == '['; });
}

}  // namespace nacre
