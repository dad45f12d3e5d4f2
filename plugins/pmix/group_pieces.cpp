// SPDX-License-Identifier: Apache-2.0
#include "group_pieces.hpp"

#include <charconv>

namespace nacre::pmix {

std::string text_of(const GroupPiece& piece) {
  return static_cast<char>(piece.kind) + std::to_string(piece.content.size()) + ':' + piece.content;
}

std::vector<GroupPiece> pieces_in(std::string_view text) {
  std::vector<GroupPiece> out;
  while (!text.empty()) {
    const auto kind = static_cast<GroupPiece::Kind>(text.front());
    if (kind != GroupPiece::Kind::bytes && kind != GroupPiece::Kind::infos) break;
    std::size_t size = 0;
    const char* const end = text.data() + text.size();
    auto [after, error] = std::from_chars(text.data() + 1, end, size);
    if (error != std::errc() || after == end || *after != ':') break;
    text.remove_prefix(static_cast<std::size_t>(after + 1 - text.data()));
    if (size > text.size()) break;
    out.push_back({kind, std::string(text.substr(0, size))});
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace nacre::pmix
