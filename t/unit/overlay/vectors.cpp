// SPDX-License-Identifier: Apache-2.0
//
// decode.py was written from doc/protocol.md alone; it has to read the bytes that this writes.
#include <unistd.h>

#include <fstream>

#include "catch.hpp"

#include "base/json.hpp"
#include "samples.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

TEST_CASE("a second decoder, written from the page, reads every message") {
  char path[] = "/tmp/nacre-vectors-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  std::ofstream file(path);
  for (const Sample& each : samples()) {
    for (unsigned char byte : framed(encode(each.message).value())) file << fmt::format("{:02x}", byte);
    file << ' ' << Json::parse(each.json).dump() << '\n';
  }
  file.close();
  int code = std::system(fmt::format("python3 {}/t/unit/overlay/decode.py {}", NACRE_SOURCE_DIR, path).c_str());
  std::remove(path);
  CHECK(code == 0);
}
