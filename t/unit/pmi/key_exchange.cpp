// SPDX-License-Identifier: Apache-2.0
#include "pmi/key_exchange.hpp"

#include "catch.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

TEST_CASE("keys and values come back from bytes as they were") {
  Entries entries{
      {"key", "value"}, {"", ""}, {"k=1", std::string("a\0\n\xff", 4)}, {"long", std::string(70'000, 'x')}};
  CHECK(decode_entries(encode_entries(entries)).value() == entries);
  CHECK(decode_entries("").value().empty());
  CHECK(encode_entries({{"ab", "c"}}) == std::string("\0\0\0\2ab\0\0\0\1c", 11));
}

TEST_CASE("bytes that are no keys are refused") {
  std::string whole = encode_entries({{"ab", "c"}});
  for (std::size_t size = 1; size < whole.size(); ++size) {
    auto cut = decode_entries(std::string_view(whole).substr(0, size));
    REQUIRE_FALSE(cut);
    CHECK(cut.error().message == "the keys of a node are cut short");
  }
  CHECK_FALSE(decode_entries("\xff\xff\xff\xff"));
  CHECK(decode_entries(std::string(kMaxEntries + 1, '\0')).error().code == EMSGSIZE);
}
