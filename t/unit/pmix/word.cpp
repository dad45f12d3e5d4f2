// SPDX-License-Identifier: Apache-2.0
#include "word.hpp"

#include <catch2/catch.hpp>

using namespace nacre::pmix;  // NOLINT

namespace {

Word sample() {
  Word word;
  word.kind = Word::Kind::answer;
  word.shell = 258;
  word.to = 3;
  word.number = std::uint64_t{1} << 40 | 5;
  word.rank = 0xfffffffe;
  word.status = -46;
  word.texts = {"", "hi", std::string("\0\xff", 2)};
  return word;
}

}  // namespace

TEST_CASE("a word's bytes, as other shells read them") {
  std::string expected(
      "\x02"
      "\x00\x00\x01\x02"
      "\x00\x00\x00\x03"
      "\x00\x00\x01\x00\x00\x00\x00\x05"
      "\xff\xff\xff\xfe"
      "\xff\xff\xff\xd2"
      "\x00\x00\x00\x00"
      "\x00\x00\x00\x02hi"
      "\x00\x00\x00\x02\x00\xff",
      41);
  CHECK(encode(sample()) == expected);
}

TEST_CASE("a word is the same after its way") {
  Word word = sample();
  for (int kind = 0; kind < Word::kKinds; ++kind) {
    word.kind = static_cast<Word::Kind>(kind);
    CHECK(decode(encode(word)) == word);
  }
  CHECK(decode(encode(Word())) == Word());
}

TEST_CASE("bytes that are no word") {
  std::string bytes = encode(sample());
  Word whole = sample();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    INFO(size);
    auto word = decode(bytes.substr(0, size));
    if (!word) continue;
    CHECK(word->texts.size() < whole.texts.size());  // cut where a text ends
    CHECK(encode(*word) == bytes.substr(0, size));
  }
  CHECK_FALSE(decode(bytes + '\0'));
  bytes[0] = static_cast<char>(Word::kKinds);
  CHECK_FALSE(decode(bytes));
  bytes = encode(sample());
  bytes[25] = '\x7f';  // the first text's length
  CHECK_FALSE(decode(bytes));
}
