// SPDX-License-Identifier: Apache-2.0
//
// What the members of a group have put, as nodes send it to each other: a piece of each node, one after the other.
// Up to version 5 libpmix passes on bytes; from 6 on infos.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nacre::pmix {

struct GroupPiece {
  enum class Kind : char { bytes = 'b', infos = 'i' };
  Kind kind = Kind::bytes;
  std::string content;

  bool operator==(const GroupPiece&) const = default;
};

[[nodiscard]] std::string text_of(const GroupPiece& piece);
// Up to the first that is invalid.
[[nodiscard]] std::vector<GroupPiece> pieces_in(std::string_view text);

}  // namespace nacre::pmix
