// SPDX-License-Identifier: Apache-2.0
#include "front/terminal_session.hpp"

#include "catch.hpp"

using nacre::front::EscapeKeys;

namespace {

// The keys that are passed on; "<" where the user has left.
std::string typed(std::string_view bytes, std::size_t piece) {
  EscapeKeys keys;
  std::string out;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    EscapeKeys::Typed some = keys.take(bytes.substr(0, piece));
    out += some.keys;
    if (some.leaves) return out + "<";
  }
  return out;
}

}  // namespace

TEST_CASE("escape keys: only at the beginning of a line, however the keys come") {
  for (std::size_t piece : {1, 2, 100}) {
    CHECK(typed("~.", piece) == "<");
    CHECK(typed("ls\r~.more", piece) == "ls\r<");
    CHECK(typed("ls\n~.", piece) == "ls\n<");
    CHECK(typed("a~.\r", piece) == "a~.\r");
    CHECK(typed("~~", piece) == "~");
    CHECK(typed("~~.", piece) == "~.");
    CHECK(typed("~~~.", piece) == "~~.");
    CHECK(typed("\r~~\r~.", piece) == "\r~\r<");
    CHECK(typed("~x~.", piece) == "~x~.");
    CHECK(typed("~\r~.", piece) == "~\r<");
    CHECK(typed("\x03\x1a\x1c~.", piece) == "\x03\x1a\x1c~.");
    CHECK(typed("~", piece).empty());  // it may begin an escape
  }
}
