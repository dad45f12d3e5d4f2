// SPDX-License-Identifier: Apache-2.0
#include "base/escape.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre {
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

}  // namespace nacre
