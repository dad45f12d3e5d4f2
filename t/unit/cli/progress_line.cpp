// SPDX-License-Identifier: Apache-2.0
#include "cli/archive_verb.hpp"

#include "catch.hpp"

using nacre::cli::human_size;
using nacre::cli::ProgressLine;

TEST_CASE("a copy that is soon over shows no progress") {
  ProgressLine line(100);
  CHECK(line.update({1, 2}, 100.99) == "");
  CHECK(line.clear() == "");
}

TEST_CASE("a copy that takes a while shows how far it is, now and then, and cleans up") {
  ProgressLine line(100);
  CHECK(line.update({3, 700}, 101) == "\r\x1b[K3 entries, 700 bytes");
  CHECK(line.update({4, 800}, 101.1) == "");
  CHECK(line.update({5, 2048}, 101.25) == "\r\x1b[K5 entries, 2.0 KiB");
  CHECK(line.clear() == "\r\x1b[K");
  CHECK(line.clear() == "");
}

TEST_CASE("sizes are told in the unit that fits") {
  CHECK(human_size(0) == "0 bytes");
  CHECK(human_size(1023) == "1023 bytes");
  CHECK(human_size(1536) == "1.5 KiB");
  CHECK(human_size(std::uint64_t{3} << 40) == "3.0 TiB");
  CHECK(human_size(UINT64_MAX) == "16.0 EiB");
}
