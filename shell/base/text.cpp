// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <fnmatch.h>

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

std::string quoted_for_shell(std::string_view word) {
  constexpr std::string_view kPlain = "%+,-./:=@_";
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) return std::string(word);
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

bool glob_match(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// Called for each subscription at each start, so it avoids find_first_of(), which is a call for each character.
bool is_glob(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return c == '*' || c == '?' || c == '['; });
}

std::string escape_glob(std::string_view name) {
  std::string out;
  for (char each : name) {
    if (std::string_view("*?[\\").find(each) != std::string_view::npos) out += '\\';
    out += each;
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& each : out) each = each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
  return out;
}

std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// ---- escape -----------------------------------------------------------------------------

namespace {

bool is_between(std::string_view text, std::size_t at, unsigned char low, unsigned char high) {
  return at < text.size() && static_cast<unsigned char>(text[at]) >= low &&
         static_cast<unsigned char>(text[at]) <= high;
}

// The bytes of the first character of `text`, which is not empty: those of RFC 3629, section 4. 0: it is no UTF-8.
std::size_t character_size(std::string_view text) {
  auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (!is_between(text, 1, low, high)) return 0;
  for (std::size_t i = 2; i < size; ++i) {
    if (!is_between(text, i, 0x80, 0xbf)) return 0;
  }
  return size;
}

// U+061C, U+200E and U+200F, U+202A to U+202E, U+2066 to U+2069: Unicode's Bidi_Control.
bool changes_direction(std::string_view character) {
  if (character.size() == 2) return character == "\xd8\x9c";
  if (character.size() != 3 || !character.starts_with("\xe2")) return false;
  auto second = static_cast<unsigned char>(character[1]), third = static_cast<unsigned char>(character[2]);
  if (second == 0x80) return third == 0x8e || third == 0x8f || (third >= 0xaa && third <= 0xae);
  return second == 0x81 && third >= 0xa6 && third <= 0xa9;
}

// `text` begins with a character of this size, as above.
bool controls_terminal(std::string_view text, std::size_t size) {
  auto first = static_cast<unsigned char>(text[0]);
  if (size == 1) return (first < 0x20 && first != '\t') || first == 0x7f;
  return size == 0 || (first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0) ||
         changes_direction(text.substr(0, size));
}

std::string escape(std::string_view text, bool keeps_lines) {
  std::string out;
  while (!text.empty()) {
    std::size_t size = character_size(text);
    bool escaped = controls_terminal(text, size) && !(keeps_lines && text[0] == '\n');
    size = std::max<std::size_t>(size, 1);
    for (char byte : text.substr(0, size)) {
      if (escaped)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      else
        out += byte;
    }
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace

std::string escape_controls(std::string_view text) { return escape(text, false); }
std::string escape_lines(std::string_view text) { return escape(text, true); }

// ---- nearest ----------------------------------------------------------------------------

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // two rows above
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, above[j] + 1, row[j - 1] + 1});
      bool is_swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::size_t max_edits(std::size_t length) {
  if (length <= 3) return 1;
  return length <= 9 ? 2 : 3;
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kMaxName = 100;  // bytes
  if (name.size() > kMaxName) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t edits = max_edits(name.size()) + 1;
  for (const std::string& each : known) {
    if (each.size() > kMaxName) continue;
    std::size_t of_this = edit_distance(name, each);
    if (of_this == 0) return std::nullopt;
    if (of_this >= edits) continue;
    best = &each;
    edits = of_this;
  }
  return best != nullptr ? std::optional(*best) : std::nullopt;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> known) {
  std::optional<std::string> near = nearest(name, known);
  return near ? "; did you mean " + *near + "?" : "";
}

}  // namespace nacre
