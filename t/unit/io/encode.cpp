// SPDX-License-Identifier: Apache-2.0
#include "io/format.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "catch.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT

namespace {

// RFC 3629's table of well-formed sequences, by the code point.
std::string utf8_of(std::uint32_t point) {
  std::string text;
  auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
  return text;
}

bool is_surrogate(std::uint32_t point) { return point >= 0xD800 && point <= 0xDFFF; }

// Nothing is appended of what is no UTF-8.
bool is_as(std::string_view text, bool expected) {
  std::string out;
  return is_utf8(text) == expected && append_json_string(out, text) == expected && out.empty() != expected;
}

// The same answer at each place of a word, at the end and before more.
bool everywhere(std::string_view bytes, bool expected) {
  for (std::size_t before = 0; before < 17; ++before) {
    std::string text = std::string(before, 'a').append(bytes);
    if (!is_as(text, expected) || !is_as(text + "aaaaaaaaaaaaaaaaa", expected)) return false;
    if (!is_as(std::string("\xC3\xA9").append(text), expected)) return false;
  }
  return true;
}

std::string json_of(std::string_view text) {
  std::string out = "[";
  REQUIRE(append_json_string(out, text));
  return out.substr(1);
}

std::string base64_of(std::string_view bytes) {
  std::string out = "=";
  append_base64(out, bytes);
  return out.substr(1);
}

std::string data_of(std::string_view bytes) {
  std::string out = "{";
  append_data(out, bytes);
  return out + "}";
}

}  // namespace

TEST_CASE("each one and two bytes are UTF-8 or not as RFC 3629 says") {
  CHECK(is_utf8(""));
  std::size_t wrong = 0;
  for (unsigned first = 0; first < 256; ++first) {
    std::string bytes(1, static_cast<char>(first));
    wrong += everywhere(bytes, first < 0x80) ? 0 : 1;
    for (unsigned second = 0; second < 256; ++second) {
      bool ascii = first < 0x80 && second < 0x80;
      bool pair = first >= 0xC2 && first <= 0xDF && second >= 0x80 && second <= 0xBF;
      wrong += is_utf8(bytes + static_cast<char>(second)) == (ascii || pair) ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("code points are UTF-8, and no surrogate is") {
  std::size_t wrong = 0;
  for (std::uint32_t point = 0; point <= 0x10FFFF; point += point < 0x11000 ? 1 : 7) {
    std::string bytes = utf8_of(point);
    wrong += is_utf8(bytes) == !is_surrogate(point) ? 0 : 1;
    if (point >= 0x80) wrong += is_utf8(std::string_view(bytes).substr(0, bytes.size() - 1)) ? 1 : 0;
  }
  CHECK(wrong == 0);
  for (std::uint32_t point = 0x110000; point < 0x200000; point += 0x1001) CHECK_FALSE(is_utf8(utf8_of(point)));
}

TEST_CASE("the borders of UTF-8 hold at each place of a word") {
  for (std::uint32_t point : {0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xCFFF, 0xD000, 0xD7FF, 0xE000, 0xEFFF,
                              0xF000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF}) {
    INFO(std::hex << point);
    CHECK(everywhere(utf8_of(point), true));
  }
  const std::vector<std::string> bad = {
      "\xC0\x80",
      "\xC1\xBF",
      "\xE0\x80\x80",
      "\xE0\x9F\xBF",
      "\xED\xA0\x80",
      "\xED\xBF\xBF",
      "\xF0\x80\x80\x80",
      "\xF0\x8F\xBF\xBF",
      "\xF4\x90\x80\x80",
      "\xF5\x80\x80\x80",
      "\xFF",
      "\xFE",
      "\x80",
      "\xBF",
      "\xE2\x82",
      "\xE2\x28\xA1",
      "\xE2\x82\x28",
      "\xE2\x82\xC0",
      "\xF0\x9F\x98",
      "\xF0\x28\x8C\xBC",
      "\xF0\x90\x28\xBC",
      "\xF0\x90\x8C\x28",
      "\xF0\x90\x8C\xC0",
      "\xF0\x9F",
      "\xF0",
      "\xE2",
      "\xC3",
      "\xC3\xC3\xA9",
      "\xF8\x88\x80\x80\x80",
  };
  for (const std::string& bytes : bad) {
    INFO(bytes.size() << " bytes from " << std::hex << static_cast<unsigned>(static_cast<std::uint8_t>(bytes[0])));
    CHECK(everywhere(bytes, false));
  }
}

TEST_CASE("a view that ends within a sequence does not look beyond") {
  std::string text = "\xF0\x9F\x98\x80";
  for (std::size_t size = 1; size < 4; ++size) CHECK_FALSE(is_utf8(std::string_view(text).substr(0, size)));
  CHECK(is_utf8(text));
}

TEST_CASE("a JSON string has the escapes that it needs and no others") {
  CHECK(json_of("") == R"("")");
  CHECK(json_of("plain text, over a word long/") == R"("plain text, over a word long/")");
  CHECK(json_of("\"\\\n\t\r") == R"("\"\\\n\t\r")");
  CHECK(json_of(std::string_view("\0\b\f\x1b\x1f\x7f ", 7)) == R"("\u0000\u0008\u000c\u001b\u001f)"
                                                               "\x7f \"");
  CHECK(json_of("caf\xC3\xA9 \xF0\x9F\x98\x80") == "\"caf\xC3\xA9 \xF0\x9F\x98\x80\"");
}

TEST_CASE("each byte is escaped or not at each place of a word") {
  for (unsigned byte = 0; byte < 0x80; ++byte) {
    for (std::size_t before = 0; before < 17; ++before) {
      std::string text = std::string(before, 'a') + static_cast<char>(byte) + "\xC3\xA9zzzzzzzz";
      auto parsed = parse_json(json_of(text));
      REQUIRE(parsed);
      if (parsed->get<std::string>() != text) FAIL("byte " << byte << " after " << before);
    }
  }
}

TEST_CASE("any text comes back from its JSON string") {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    unsigned below = std::array{0x30U, 0x80U, 0x800U, 0x110000U}[random() % 4];
    for (std::size_t left = random() % 70; left > 0; --left) {
      auto point = static_cast<std::uint32_t>(random() % below);
      if (!is_surrogate(point)) text += utf8_of(point);
    }
    REQUIRE(is_utf8(text));
    std::string json = json_of(text);
    auto parsed = parse_json(json);
    if (!parsed || parsed->get<std::string>() != text) FAIL(json);
    for (char byte : json) {
      if (static_cast<std::uint8_t>(byte) < 0x20) FAIL("a control character in " << json);
    }
  }
}

TEST_CASE("RFC 4648's test vectors of base64 hold") {
  CHECK(base64_of("").empty());
  CHECK(base64_of("f") == "Zg==");
  CHECK(base64_of("fo") == "Zm8=");
  CHECK(base64_of("foo") == "Zm9v");
  CHECK(base64_of("foob") == "Zm9vYg==");
  CHECK(base64_of("fooba") == "Zm9vYmE=");
  CHECK(base64_of("foobar") == "Zm9vYmFy");
  CHECK(base64_of("\x14\xFB\x9C\x03\xD9\x7E") == "FPucA9l+");  // RFC 3548's
  CHECK(base64_of("\xFF\xFF\xFF") == "////");
  CHECK(base64_of("\xFB\xEF\xBE") == "++++");
  CHECK(base64_of(std::string_view("\0", 1)) == "AA==");
  CHECK(base64_of("\xFF\xFF") == "//8=");
  CHECK(base64_of("\xFF") == "/w==");
}

TEST_CASE("each digit of base64 comes out at each of its places") {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (unsigned digit = 0; digit < 64; ++digit) {
    for (unsigned place = 0; place < 4; ++place) {
      unsigned group = digit << (18 - 6 * place);
      std::string bytes{static_cast<char>(group >> 16), static_cast<char>(group >> 8), static_cast<char>(group)};
      std::string expected = "AAAA";
      expected[place] = kDigits[digit];
      if (base64_of(bytes) != expected) FAIL(digit << " at " << place);
    }
  }
}

TEST_CASE("data is text where it is UTF-8, and base64 where it is not") {
  CHECK(data_of("") == R"({"data":""})");
  CHECK(data_of("say \"hi\"\n") == R"({"data":"say \"hi\"\n"})");
  CHECK(data_of("ok \xFF") == R"({"data":"b2sg/w==","encoding":"base64"})");
  CHECK(data_of("\n\"17 bytes, and more\xC3") == R"({"data":"CiIxNyBieXRlcywgYW5kIG1vcmXD","encoding":"base64"})");
}
