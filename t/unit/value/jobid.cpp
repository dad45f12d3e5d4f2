// SPDX-License-Identifier: Apache-2.0
#include "value/jobid.hpp"

#include <random>

#include "catch.hpp"

using nacre::value::JobId;

namespace {

std::uint64_t id_of(std::string_view text) {
  INFO(text);
  auto id = JobId::parse(text);
  if (!id) FAIL(id.error().message);
  return id->value();
}

std::string jobid_error(std::string_view text) {
  INFO(text);
  auto id = JobId::parse(text);
  REQUIRE_FALSE(id);
  return id.error().message;
}

}  // namespace

TEST_CASE("RFC 19's example has all its forms") {
  JobId id(6731191091817518);
  CHECK(id.decimal() == "6731191091817518");
  CHECK(id.f58() == "ƒuZZybuNNy");
  CHECK(id.f58_plain() == "fuZZybuNNy");
  CHECK(id.hex() == "0x17e9fb8df16c2e");
  CHECK(id.dothex() == "0017.e9fb.8df1.6c2e");
  CHECK(id.words() == "reform-remote-galileo--heart-package-academy");
  for (const auto& text : {id.decimal(), id.f58(), id.f58_plain(), id.hex(), id.dothex(), id.words(), id.emoji()}) {
    CHECK(id_of(text) == id.value());
  }
}

TEST_CASE("RFC 19's other examples are one id in each form") {
  JobId second(0xedaf97d000000);
  CHECK(second.dothex() == "000e.daf9.7d00.0000");
  CHECK(second.hex() == "0xedaf97d000000");
  CHECK(id_of("000e.daf9.7d00.0000") == second.value());
  CHECK(second.words() == "random-idea-yoyo--sugar-printer-academy");
  CHECK(id_of("random-idea-yoyo--sugar-printer-academy") == second.value());
  for (const char* text : {"ƒZemgA8Bzf", "ƒ278oEf7zGf"}) CHECK(JobId(id_of(text)).f58() == text);
  for (const char* text : {"🚹💂🙌😳💱🏃", "😄😹🎇📥🏧🙉🔞", "🚹💂🈳💰🎩🏃"}) CHECK(JobId(id_of(text)).emoji() == text);
}

TEST_CASE("F58 of small, round and largest ids") {
  struct {
    std::uint64_t id;
    std::string digits;
  } const vectors[] = {
      {0, "1"},
      {1, "2"},
      {57, "z"},
      {1234, "NH"},
      {1888, "ZZ"},
      {3363, "zz"},
      {3364, "211"},
      {4369, "2JL"},
      {65535, "LUv"},
      {4294967295, "7YXq9G"},
      {633528662, "xyzzy"},
      {6731191091817518, "uZZybuNNy"},
      {18446744073709551614U, "jpXCZedGfVP"},
      {18446744073709551615U, "jpXCZedGfVQ"},
  };
  for (const auto& each : vectors) {
    CHECK(JobId(each.id).f58() == "ƒ" + each.digits);
    CHECK(JobId(each.id).f58_plain() == "f" + each.digits);
    CHECK(id_of("ƒ" + each.digits) == each.id);
    CHECK(id_of("f" + each.digits) == each.id);
  }
  CHECK(id_of("f111") == 0);
  CHECK(id_of("f" + std::string(200, '1') + "2") == 1);
}

TEST_CASE("decimal, hexadecimal, dotted and emoji ids") {
  struct {
    std::uint64_t id;
    std::string text;
  } const vectors[] = {
      {1234, "1234"},
      {18446744073709551615U, "18446744073709551615"},
      {0, "0x0"},
      {57, "0x39"},
      {3363, "0xd23"},
      {65535, "0xFFFF"},
      {633528662, "0x25c2e156"},
      {18446744073709551615U, "0xffffffffffffffff"},
      {0, "0.0.0.0"},
      {1, "0000.0000.0000.0001"},
      {57, "0.0.0.0039"},
      {4369, "0000.0000.0000.1111"},
      {4294967295, "0000.0000.ffff.ffff"},
      {18446462598732840960U, "ffff.0000.0000.0000"},
      {281470681743360, "0000.ffff.0000.0000"},
      {4294901760, "0000.0000.ffff.0000"},
      {2814797012533261, "a.b.c.d"},
      {281483566841860, "1.2.3.4"},
      {0, "😃"},
      {1, "😄"},
      {57, "🙊"},
      {1234, "😁👌"},
      {1888, "😆🐻"},
      {4369, "😊🌀"},
      {65535, "💁📚"},
      {4294967295, "😳🏪🍖🍸"},
      {18446744073709551615U, "🚹💗💧👗😷📷📚"},
      {65535, " 0xffff \n"},
      {1, "\tƒ2 "},
  };
  for (const auto& each : vectors) CHECK(id_of(each.text) == each.id);
  CHECK(JobId(18446744073709551615U).emoji() == "🚹💗💧👗😷📷📚");
  CHECK(JobId(0).emoji() == "😃");
  CHECK(JobId(0).words() == "academy-academy-academy--academy-academy-academy");
  CHECK(JobId(0).hex() == "0x0");
}

TEST_CASE("words are read in any case and with any dashes between them") {
  CHECK(id_of("Reform-REMOTE-galileo-heart-package---academy") == 6731191091817518);
  for (const char* text : {"-reform-remote-galileo--heart-package-academy", "reform-remote-galileo--heart-package-",
                           "reform-remote-galileo", "a-b", "-1", "-"}) {
    CHECK(jobid_error(text) == "job id '" + std::string(text) + "': expected 6 words parted by dashes");
  }
  CHECK(jobid_error("reform-remote-galileo--heart-package-flux") ==
        "job id 'reform-remote-galileo--heart-package-flux': 'flux' is not in the word list");
  CHECK(jobid_error("academy-academy-academy--academy-academy-amen") ==
        "job id 'academy-academy-academy--academy-academy-amen': three of its words are too large for 32 bits");
  // One of the seven words for 24-bit remainders.
  CHECK(jobid_error("academy-academy-ego--academy-academy-academy").find("'ego' is not in the word list") !=
        std::string::npos);
}

TEST_CASE("what is no job id is refused") {
  for (const char* text : {"", "boo", "x1", "1234x", "+5", "18446744073709551616", "0X10", "12 34", "ffff ffff"}) {
    CHECK(jobid_error(text).find("job id '" + std::string(text) + "': ") == 0);
  }
  CHECK(jobid_error("boo") ==
        "job id 'boo': expected a decimal number of 64 bits, 0x and hexadecimal digits, ƒ and "
        "base58 digits, or words");
  CHECK(jobid_error("f") == "job id 'f': expected base58 digits after the prefix");
  CHECK(jobid_error("ƒ") == "job id 'ƒ': expected base58 digits after the prefix");
  for (const char* digit : {"0", "O", "I", "l"}) {
    std::string text = std::string("f12") + digit;
    CHECK(jobid_error(text) == "job id '" + text + "': '" + digit + "' is no base58 digit");
  }
  CHECK(jobid_error("fjpXCZedGfVR") == "job id 'fjpXCZedGfVR': too large for 64 bits");
  CHECK(jobid_error("fzzzzzzzzzzzz") == "job id 'fzzzzzzzzzzzz': too large for 64 bits");
  for (const char* text :
       {"0.0.0", "0.0.0.0.0", "0.0.0.g", "0.0.0.", ".0.0.0", "00000.0.0.0", "1.5", "0x1.0.0.0"}) {
    CHECK(jobid_error(text) ==
          "job id '" + std::string(text) + "': expected four groups of up to four hexadecimal digits");
  }
  for (const char* text : {"0x", "0xg", "0x10000000000000000", "0x 1"}) {
    CHECK(jobid_error(text) ==
          "job id '" + std::string(text) + "': expected 0x and a hexadecimal number of 64 bits");
  }
  CHECK(jobid_error("🦄") == "job id '🦄': character 1 is not in the emoji list");
  CHECK(jobid_error("😃\xf0\x9f").find("character 2 is not in the emoji list") != std::string::npos);
  CHECK(jobid_error("😄😃😃😃😃😃😃😃") == "job id '😄😃😃😃😃😃😃😃': too large for 64 bits");
  CHECK(id_of(std::string(JobId::kMaxText - 1, '0') + "7") == 7);
  CHECK(jobid_error(std::string(JobId::kMaxText, '0') + "7").find("longer than 256 bytes") != std::string::npos);
}

TEST_CASE("the alphabets have no digit twice") {
  using namespace nacre::value;  // NOLINT
  std::set<std::string_view> words;
  for (std::size_t digit = 0; digit < kJobIdWordCount; ++digit) words.insert(jobid_word(digit));
  CHECK(words.size() == 1626);
  CHECK(jobid_word(0) == "academy");
  CHECK(jobid_word(1625) == "amen");
  CHECK(std::set<char32_t>(kJobIdEmoji.begin(), kJobIdEmoji.end()).size() == 576);
  CHECK(std::set<char>(kJobIdBase58.begin(), kJobIdBase58.end()).size() == 58);
}

TEST_CASE("any id survives each form") {
  std::mt19937_64 random(19);
  for (int i = 0; i < 500; ++i) {
    JobId id(random() >> (i % 64));
    for (const auto& text :
         {id.decimal(), id.f58(), id.f58_plain(), id.hex(), id.dothex(), id.words(), id.emoji()}) {
      INFO(text);
      CHECK(id_of(text) == id.value());
    }
  }
}
