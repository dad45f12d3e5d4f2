// SPDX-License-Identifier: Apache-2.0
#include "transport/secret.hpp"

#include "catch.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

TEST_CASE("digests are those of FIPS 180-2") {
  auto hex = [](std::string_view bytes) {
    std::string out;
    std::string digest = sha256(bytes).value();
    for (unsigned char byte : digest) {
      constexpr const char* kDigits = "0123456789abcdef";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
    return out;
  };
  CHECK(hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
