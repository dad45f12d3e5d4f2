// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include "catch.hpp"

#include "base/log.hpp"

using namespace nacre;

TEST_CASE("what controls a terminal is escaped, in UTF-8 and in any other bytes") {
  CHECK(escape_controls("caf\xc3\xa9 \xc6\x92\t\xe2\x80\xa6 \xf0\x9f\x98\x80") ==
        "caf\xc3\xa9 \xc6\x92\t\xe2\x80\xa6 \xf0\x9f\x98\x80");
  CHECK(escape_controls("a\x1b[2J\r\n\x7f") == "a\\x1b[2J\\x0d\\x0a\\x7f");
  CHECK(escape_controls(std::string_view("\0", 1)) == "\\x00");
  CHECK(escape_controls("\xc2\x9b"
                        "2J\xc2\xa0") ==
        "\\xc2\\x9b"
        "2J\xc2\xa0");
  // No UTF-8: a byte alone, too long a form, half of a pair, more than there are characters, cut.
  CHECK(escape_controls("\x9b"
                        "2J") ==
        "\\x9b"
        "2J");
  CHECK(escape_controls("\xe0\x82\x9b") == "\\xe0\\x82\\x9b");
  CHECK(escape_controls("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(escape_controls("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(escape_controls("x\xe2\x80") == "x\\xe2\\x80");
  // What changes the direction of text, and its neighbours.
  CHECK(escape_controls("\xe2\x80\xae|\xe2\x80\xaa|\xe2\x80\x8f|\xe2\x81\xa9|\xd8\x9c") ==
        "\\xe2\\x80\\xae|\\xe2\\x80\\xaa|\\xe2\\x80\\x8f|\\xe2\\x81\\xa9|\\xd8\\x9c");
  for (const char* text : {"\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x80\x8d", "\xe2\x81\xaa", "\xd8\x9b"})
    CHECK(escape_controls(text) == text);
  CHECK(escape_lines("a\x1b\nb\r\n") == "a\\x1b\nb\\x0d\n");
}

TEST_CASE("a message that a log passes on cannot control a terminal") {
  std::string seen;
  Log log;
  log.add_sink("one", [&](const LogEntry& e) { seen = e.message; });
  log.log(Level::error, "", "rank 1: {}", "\x1b]0;x\a");
  CHECK(seen == "rank 1: \\x1b]0;x\\x07");
}
