// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"

#include <random>

#include "catch.hpp"

using namespace nacre;  // NOLINT

namespace {

std::string base64_of(std::string_view bytes) {
  std::string out = "=";
  append_base64(out, bytes);
  CHECK(out.size() == 1 + base64_size(bytes.size()));
  return out.substr(1);
}

}  // namespace

TEST_CASE("base64 is as in RFC 4648, section 10, in both directions") {
  const std::pair<std::string_view, std::string_view> examples[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"foobar", "Zm9vYmFy"}};
  for (auto [bytes, text] : examples) {
    CHECK(base64_of(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
}

TEST_CASE("bytes of any length come back from base64") {
  std::mt19937 random(5);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(random());
    CHECK(from_base64(base64_of(bytes)) == bytes);
  }
}

TEST_CASE("what is no base64 is none") {
  for (const char* text : {"Z", "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9!", "Zm 9", "Zm9\n", "=Zm9"}) {
    INFO(text);
    CHECK_FALSE(from_base64(text));
  }
}
