// SPDX-License-Identifier: Apache-2.0
//
// The first message on a link, before any of the overlay: a frame of JSON, which every version of the protocol can
// read, so that shells of different versions can report what is wrong. See doc/protocol.md, "First words".
#pragma once

#include "group/directory.hpp"

namespace nacre::group {

inline constexpr std::uint32_t kProtocol = 19;

struct FirstWords {
  std::string version;  // of the sending program
  std::uint32_t protocol = kProtocol;
  Rank from = 0;
  Rank to = 0;

  [[nodiscard]] std::string text() const;
  static Result<FirstWords> parse(std::string_view frame);
};

// No message of the overlay begins with this.
[[nodiscard]] inline bool are_first_words(std::string_view frame) { return frame.starts_with('{'); }

}  // namespace nacre::group
