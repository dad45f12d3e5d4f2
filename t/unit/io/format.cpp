// SPDX-License-Identifier: Apache-2.0
#include "io/format.hpp"

#include <random>

#include "catch.hpp"

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "io/batch.hpp"

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT

namespace {

constexpr double kNoon = 1769860800.25;  // 2026-01-31T12:00:00.25Z

struct FormatFixture {
  Source out0{0, Stream::out, "0: "};
  Source out1{1, Stream::out, "1: "};
  Source err1{1, Stream::err, "1: "};
  std::unique_ptr<Format> format;
  std::string text;

  void use(const FormatOptions& options) {
    format = Format::create(options);
    text.clear();
  }
  std::string take(const Pieces& pieces) {
    std::string all;
    for (std::string_view piece : pieces) all += piece;
    text += all;
    return all;
  }
  std::string put(const Batch& batch) { return take(format->put(batch)); }
  // A whole batch; it is open, and continues, where the text says so with a '+' at its end or beginning.
  std::string put(const Source& source, std::string_view body, double time = kNoon) {
    Batch batch{&source, time, {}, body, body.front() == '+', body.back() == '+'};
    if (batch.continues) batch.body.remove_prefix(1);
    if (batch.open) batch.body.remove_suffix(1);
    return put(batch);
  }
  std::string end(const Source& source, double time = kNoon) { return take(format->end(source, time)); }
  std::string notice(std::string_view message, double time = kNoon) { return take(format->notice(message, time)); }
};

std::string base64_decoded(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  unsigned count = 0;
  REQUIRE(text.size() % 4 == 0);
  for (char digit : text.substr(0, text.find('='))) {
    std::size_t value = kDigits.find(digit);
    REQUIRE(value != std::string_view::npos);
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return bytes;
}

std::string data_of(const Json& object) {
  auto data = object.at("data").get<std::string>();
  if (!object.contains("encoding")) return data;
  REQUIRE(object.at("encoding") == "base64");
  return base64_decoded(data);
}

std::vector<Json> parsed_lines(std::string_view text) {
  std::vector<Json> lines;
  while (!text.empty()) {
    std::size_t newline = text.find('\n');
    REQUIRE(newline != std::string_view::npos);
    auto line = parse_json(text.substr(0, newline));
    if (!line) FAIL(text.substr(0, newline) << ": " << line.error().message);
    lines.push_back(*std::move(line));
    text.remove_prefix(newline + 1);
  }
  return lines;
}

// Writes random bytes of the sources by turns; returns what each source wrote.
std::map<const Source*, std::string> write_random(FormatFixture& fixture, Buffering buffering, unsigned seed) {
  std::mt19937 random(seed);
  std::array<const Source*, 3> sources{&fixture.out0, &fixture.out1, &fixture.err1};
  std::map<const Source*, std::string> written;
  std::map<const Source*, Assembler> assemblers;
  for (const Source* source : sources) assemblers.try_emplace(source, *source, buffering);
  auto take = [&](const Batch& batch) { fixture.put(batch); };
  constexpr std::array<std::string_view, 10> kWords{
      "\n", "\n", "word", "\"", "\\", "\xFF", "caf\xC3\xA9 ", "\t", "\xC3", "more than eight bytes"};
  for (int round = 0; round < 400; ++round) {
    const Source* source = sources[random() % 3];
    std::string part;
    for (auto words = random() % 6; words > 0; --words) part += kWords[random() % kWords.size()];
    if (random() % 8 == 0) part += '\0';
    assemblers.at(source).add(part, kNoon, take);
    written[source] += part;
  }
  for (const Source* source : sources) {
    assemblers.at(source).end(kNoon, take);
    fixture.end(*source);
  }
  return written;
}

}  // namespace

TEST_CASE("a time is shown in UTC to the microsecond") {
  CHECK(iso_time(0) == "1970-01-01T00:00:00.000000Z");
  CHECK(iso_time(1769860800) == "2026-01-31T12:00:00.000000Z");
  CHECK(iso_time(1769860800.123456) == "2026-01-31T12:00:00.123456Z");
  CHECK(iso_time(951782399.5) == "2000-02-28T23:59:59.500000Z");
  CHECK(iso_time(4107542399.999999) == "2100-02-28T23:59:59.999999Z");
  CHECK(iso_time(1769860799.9999998) == "2026-01-31T12:00:00.000000Z");
  for (int micros = 0; micros < 1'000'000; micros += 997) {
    std::string digits = std::to_string(1'000'000 + micros).substr(1);
    double time = std::stod("1769860800." + digits);
    if (iso_time(time) != "2026-01-31T12:00:00." + digits + "Z") FAIL(digits << " is shown as " << iso_time(time));
  }
}

TEST_CASE_METHOD(FormatFixture, "for a terminal in raw mode each newline has a carriage return before it") {
  FormatOptions options;
  options.carriage_return = true;
  use(options);
  CHECK(put({&out0, kNoon, "head ", "body\n\nrest", false, true}) == "head body\r\n\r\nrest");
  CHECK(put(out1, "x\n") == "\r\nx\r\n");
  options.label = true;
  use(options);
  CHECK(put(out0, "x\ny") == out0.label + "x\r\n" + out0.label + "y");
  CHECK(end(out0) == "\r\n");
}

TEST_CASE_METHOD(FormatFixture, "plain text is the bytes as they are") {
  use({});
  CHECK(put(out0, "one\ntwo\n") == "one\ntwo\n");
  CHECK(put({&out1, kNoon, "head ", "body\n", false, false}) == "head body\n");
  CHECK(put(out0, std::string_view("a\0\xFF+", 4)) == std::string_view("a\0\xFF", 3));
  CHECK(put(out0, "+b+") == "b");
  CHECK(put(out0, "+c\nd\n") == "c\nd\n");
  CHECK(put(out0, "no end") == "no end");
  CHECK(end(out0).empty());
  CHECK(end(out1).empty());
}

TEST_CASE_METHOD(FormatFixture, "plain text of any one source is byte for byte what it wrote") {
  auto buffering = GENERATE(Buffering::none, Buffering::line, Buffering::block);
  use({});
  std::mt19937 random(5);
  Assembler assembler(out0, buffering);
  auto take = [&](const Batch& batch) { put(batch); };
  std::string written;
  for (int round = 0; round < 300; ++round) {
    std::string part(random() % 700, '\0');
    for (char& byte : part) byte = static_cast<char>(random() % 16 == 0 ? '\n' : random() & 0xFF);
    assembler.add(part, kNoon, take);
    written += part;
  }
  assembler.end(kNoon, take);
  end(out0);
  CHECK((text == written));
}

TEST_CASE_METHOD(FormatFixture, "a newline is put where another source comes before the end of a line") {
  use({});
  put(out0, "begun+");
  CHECK(put(out1, "other\n") == "\nother\n");
  CHECK(put(out0, "+goes on+") == "goes on");
  CHECK(put(err1, "of stderr+") == "\nof stderr");
  CHECK(put(out0, "+again\n") == "\nagain\n");
  CHECK(put(err1, "+last\n") == "last\n");
  CHECK(put(out1, "whole\n") == "whole\n");
  put(out1, "cut short");
  CHECK(put(out1, "a new line\n") == "\na new line\n");
}

TEST_CASE_METHOD(FormatFixture, "after a source that ended within a line the next one gets a newline") {
  use({});
  put(out0, "no end");
  CHECK(end(out1).empty());
  CHECK(end(out0).empty());
  CHECK(put(out1, "next\n") == "\nnext\n");
  CHECK(put(out1, "more\n") == "more\n");
  put(out1, "no end");
  end(out1);
  CHECK(notice("lost") == "\nlost\n");
  CHECK(put(out0, "x\n") == "x\n");
}

TEST_CASE_METHOD(FormatFixture, "a notice is a line of its own") {
  use({});
  CHECK(notice("lost") == "lost\n");
  put(out0, "begun+");
  CHECK(notice("lost") == "\nlost\n");
  CHECK(put(out0, "+end\n") == "end\n");
  use({Form::text, true, Timestamps::unix});
  put(out0, "begun+");
  CHECK(notice("lost") == "\nlost\n");
  CHECK(put(out0, "+end\n") == "1769860800.250000 0: end\n");
}

TEST_CASE_METHOD(FormatFixture, "each line begins with its time and its label") {
  use({Form::text, true, Timestamps::none});
  CHECK(put(out0, "one\n\ntwo\n") == "0: one\n0: \n0: two\n");
  use({Form::text, false, Timestamps::iso});
  CHECK(put(out0, "one\ntwo\n") == "2026-01-31T12:00:00.250000Z one\n2026-01-31T12:00:00.250000Z two\n");
  use({Form::text, false, Timestamps::unix});
  CHECK(put(err1, "one\ntwo\n") == "1769860800.250000 one\n1769860800.250000 two\n");
  use({Form::text, true, Timestamps::iso});
  CHECK(put(err1, "one\n") == "2026-01-31T12:00:00.250000Z 1: one\n");
}

TEST_CASE_METHOD(FormatFixture, "a line over several batches has one label, unless it was interrupted") {
  use({Form::text, true, Timestamps::unix});
  CHECK(put(out0, "be+", 1) == "1.000000 0: be");
  CHECK(put(out0, "+gun+", 2) == "gun");
  CHECK(put(out0, "+ here\nnext+", 3) == " here\n3.000000 0: next");
  CHECK(put(out1, "other\n", 4) == "\n4.000000 1: other\n");
  CHECK(put(out0, "+end\nlast\n", 5) == "5.000000 0: end\n5.000000 0: last\n");
  CHECK(put({&out0, 6, "he", "ad\nbo", false, true}) == "6.000000 0: head\n6.000000 0: bo");
  CHECK(put({&out0, 7, "dy", "\nx\n", true, false}) == "dy\n7.000000 0: x\n");
  CHECK(put({&out0, 8, "a\n", "b\n", false, false}) == "8.000000 0: a\n8.000000 0: b\n");
}

TEST_CASE_METHOD(FormatFixture, "a labelled source that ends within a line gets a newline") {
  bool label = GENERATE(true, false);
  use({Form::text, label, label ? Timestamps::none : Timestamps::unix});
  put(out0, "no end");
  CHECK(end(out1).empty());
  CHECK(end(out0) == "\n");
  CHECK(end(out0).empty());
  CHECK(put(out1, "x\n").front() == '1');
}

TEST_CASE_METHOD(FormatFixture, "json is an object a line") {
  use({Form::json});
  CHECK(put(out0, "one\n\ntwo+") ==
        R"({"time":1769860800.250000,"rank":0,"stream":"stdout","data":"one"})"
        "\n"
        R"({"time":1769860800.250000,"rank":0,"stream":"stdout","data":""})"
        "\n"
        R"({"time":1769860800.250000,"rank":0,"stream":"stdout","data":"two","eol":false})"
        "\n");
  CHECK(put({&err1, 2, "he", "ad\xFF\n", false, false}) ==
        R"({"time":2.000000,"rank":1,"stream":"stderr","data":"aGVhZP8=","encoding":"base64"})"
        "\n");
  CHECK(put(err1, "\xFF", 3) ==
        R"({"time":3.000000,"rank":1,"stream":"stderr","data":"/w==","encoding":"base64","eol":false})"
        "\n");
  CHECK(end(out0).empty());
  CHECK(notice("[2 \"lines\"]", 4) == R"({"time":4.000000,"notice":"[2 \"lines\"]"})"
                                      "\n");
}

TEST_CASE_METHOD(FormatFixture, "what all wrote can be put together from json") {
  auto buffering = GENERATE(Buffering::none, Buffering::line, Buffering::block);
  use({Form::json});
  auto written = write_random(*this, buffering, 21);
  std::map<const Source*, std::string> read;
  for (const Json& line : parsed_lines(text)) {
    const Source* source = line.at("rank") == 0 ? &out0 : line.at("stream") == "stdout" ? &out1 : &err1;
    if (line.at("time") != kNoon || line.value("eol", false)) FAIL(line);
    read[source] += data_of(line) + (line.contains("eol") ? "" : "\n");
  }
  CHECK(read == written);
}

TEST_CASE_METHOD(FormatFixture, "an eventlog has data events of any number of lines and an eof for each source") {
  use({Form::eventlog});
  CHECK(
      put(out0, "one\ntwo\n") ==
      R"({"timestamp":1769860800.250000,"name":"data","context":{"stream":"stdout","rank":"0","data":"one\ntwo\n"}})"
      "\n");
  CHECK(
      put({&err1, 2, "he", "ad\xFF", false, true}) ==
      R"({"timestamp":2.000000,"name":"data","context":{"stream":"stderr","rank":"1","data":"aGVhZP8=","encoding":"base64"}})"
      "\n");
  CHECK(end(err1, 3) ==
        R"({"timestamp":3.000000,"name":"data","context":{"stream":"stderr","rank":"1","eof":true}})"
        "\n");
  Json log = parsed_lines(notice("[\"lost\"]", 4)).at(0);
  CHECK(log ==
        Json{{"timestamp", 4.0},
             {"name", "log"},
             {"context",
              {{"level", 4}, {"program", "nacre-shell"}, {"component", "output"}, {"message", "[\"lost\"]"}}}});
}

TEST_CASE_METHOD(FormatFixture, "an eventlog by line has a data event for each, and for what has no end yet") {
  FormatOptions options{Form::eventlog};
  options.by_line = true;
  use(options);
  std::vector<std::string> data;
  for (const Json& event : parsed_lines(put(out0, "one\n\ntw\xFF\nthr")))
    data.push_back(data_of(event.at("context")));
  CHECK(data == std::vector<std::string>{"one\n", "\n", "tw\xFF\n", "thr"});
  CHECK(parsed_lines(end(out0, 3)).size() == 1);
}

TEST_CASE_METHOD(FormatFixture, "what all wrote can be put together from an eventlog") {
  auto buffering = GENERATE(Buffering::none, Buffering::line, Buffering::block);
  FormatOptions options{Form::eventlog};
  options.by_line = GENERATE(false, true);
  use(options);
  auto written = write_random(*this, buffering, 22);
  std::map<const Source*, std::string> read;
  std::map<const Source*, int> ends;
  for (const Json& event : parsed_lines(text)) {
    REQUIRE(event.at("name") == "data");
    CHECK(event.at("timestamp") == kNoon);
    const Json& context = event.at("context");
    const Source* source = context.at("rank") == "0" ? &out0 : context.at("stream") == "stdout" ? &out1 : &err1;
    CHECK(context.at("rank") == std::to_string(source->rank));
    CHECK(context.at("stream") == std::string(name_of(source->stream)));
    CHECK(ends[source] == 0);
    if (context.contains("eof")) {
      CHECK(context.at("eof") == true);
      CHECK_FALSE(context.contains("data"));
      ++ends[source];
    } else {
      read[source] += data_of(context);
    }
  }
  CHECK(read == written);
  CHECK(ends == std::map<const Source*, int>{{&out0, 1}, {&out1, 1}, {&err1, 1}});
}

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

// If it is no UTF-8 nothing is appended.
bool is_as(std::string_view text, bool expected) {
  std::string out;
  return is_utf8(text) == expected && append_json_string(out, text) == expected && out.empty() != expected;
}

// The answer is the same at each place of a machine word, at the end and before more bytes.
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

std::string data_member(std::string_view bytes) {
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
  CHECK(data_member("") == R"({"data":""})");
  CHECK(data_member("say \"hi\"\n") == R"({"data":"say \"hi\"\n"})");
  CHECK(data_member("ok \xFF") == R"({"data":"b2sg/w==","encoding":"base64"})");
  CHECK(data_member("\n\"17 bytes, and more\xC3") ==
        R"({"data":"CiIxNyBieXRlcywgYW5kIG1vcmXD","encoding":"base64"})");
}

namespace nacre::io {
namespace {

std::string joined(const Pieces& pieces) {
  std::string out;
  for (std::string_view piece : pieces) out += piece;
  return out;
}

struct Heard {
  std::vector<std::string> lines;
  BatchReader reader{take()};

  BatchReader::Take take() {
    BatchReader::Take out;
    out.source = [this](const Source& source) -> Result<void> {
      lines.push_back(
          fmt::format("source {} {} '{}' {}", source.rank, name_of(source.stream), source.label, source.is_part));
      if (source.rank == 666) return Error{EPROTO, "not this one"};
      return {};
    };
    out.batch = [this](const Batch& batch) {
      std::string room;
      lines.push_back(fmt::format("{} {} {}{}{}", batch.source->rank, batch.time, batch.continues ? "..." : "",
                                  batch.joined(room), batch.open ? "..." : ""));
    };
    out.end = [this](const Source& source, double time) {
      lines.push_back(fmt::format("{} {} ends {}", source.rank, name_of(source.stream), time));
    };
    out.event = [this](std::string_view line) { lines.push_back(fmt::format("event {}", line)); };
    out.complete = [this](std::uint32_t rank) -> Result<void> {
      lines.push_back(fmt::format("{} is complete", rank));
      if (rank == 666) return Error{EPROTO, "not this one"};
      return {};
    };
    return out;
  }
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("batches come as they were written, in any pieces") {
  WireFormat out(Stream::out);
  WireFormat err(Stream::err);
  Source first{7, Stream::out, "seven", false};
  Source second{8, Stream::err, "", true};
  std::string text = joined(out.put({&first, 1.25, "he", "ad\n", false, false}));
  text += joined(err.put({&second, 2, {}, "half", false, true}));
  text += joined(out.put({&first, 3, {}, std::string_view("\0x\n", 3), true, false}));
  text += WireFormat::event("{\"name\":\"redirect\"}");
  text += joined(out.end(first, 4));
  text += WireFormat::complete(7);
  text += joined(out.put({&first, 5, {}, "anew", false, false}));
  std::size_t size = GENERATE(1U, 2U, 7U, 1000U);
  Heard heard;
  for (std::size_t at = 0; at < text.size(); at += size) REQUIRE(heard.reader.add(text.substr(at, size)));
  CHECK(heard.reader.unread() == 0);
  heard.reader.end_all(9);
  CHECK(heard.lines == Lines{"source 7 stdout 'seven' false", "7 1.25 head\n", "source 8 stderr '' true",
                             "8 2 half...", std::string("7 3 ...\0x\n", 10), "event {\"name\":\"redirect\"}",
                             "7 stdout ends 4", "7 is complete", "source 7 stdout 'seven' false", "7 5 anew",
                             "8 stderr ends 9", "7 stdout ends 9"});
}

TEST_CASE("an end says of whom, if nothing has been") {
  WireFormat out(Stream::out);
  Source silent{3, Stream::out, "", false};
  Heard heard;
  REQUIRE(heard.reader.add(joined(out.end(silent, 1))));
  CHECK(heard.lines == Lines{"source 3 stdout '' false", "3 stdout ends 1"});
}

TEST_CASE("with each batch its source may come again, so that a reader can begin with any of them") {
  WireFormat format(Stream::out, true);
  const Source source{3, Stream::out, "three", false};
  const std::string first = joined(format.put({&source, 1, {}, "a", false, false}));
  const std::string second = joined(format.put({&source, 2, {}, "b", false, false}));
  Heard both;
  Heard late;
  REQUIRE(both.reader.add(first + second));
  REQUIRE(late.reader.add(second));
  CHECK(both.lines == Lines{"source 3 stdout 'three' false", "3 1 a", "3 2 b"});
  CHECK(late.lines == Lines{"source 3 stdout 'three' false", "3 2 b"});
}

TEST_CASE("a source that comes again may have become a part") {
  const bool repeats = GENERATE(true, false);
  WireFormat format(Stream::out, repeats);
  Source source{3, Stream::out, "", false};
  std::string text = joined(format.put({&source, 1, {}, "a", false, false}));
  source.is_part = true;
  text += joined(format.end(source, 2));
  std::vector<bool> parts;
  BatchReader::Take take;
  take.source = [](const Source&) { return Result<void>(); };
  take.batch = [&](const Batch& batch) { parts.push_back(batch.source->is_part); };
  take.end = [&](const Source& ended, double) { parts.push_back(ended.is_part); };
  BatchReader reader(std::move(take));
  REQUIRE(reader.add(text));
  CHECK(parts == std::vector<bool>{false, true});
}

TEST_CASE("what no WireFormat writes is refused") {
  auto record = [](int kind, int number, const std::string& body) {
    return fmt::format("{}{}{}{}{}", static_cast<char>(kind), std::string(3, '\0'), static_cast<char>(number),
                       std::string(3, '\0'), static_cast<char>(body.size())) +
           body;
  };
  const std::string source = record(1, 5, std::string(5, '\0'));
  const std::string time(8, '\0');
  Heard heard;
  REQUIRE(heard.reader.add(source));
  auto why = [&](const std::string& bytes) {
    Result<void> read = heard.reader.add(bytes);
    REQUIRE_FALSE(read);
    CHECK(read.error().code == EPROTO);
    return read.error().message;
  };
  CHECK(why(record(0, 5, "")) == "output: a record of kind 0 with 0 bytes");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(6, 5, "")) == "output: a record of kind 6 with 0 bytes");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(5, 0, "")) == "output: a record of kind 5 with 0 bytes");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(5, 1, std::string(4, '\0'))) == "output: a record of kind 5 with 4 bytes");
  heard.reader = BatchReader(heard.take());
  CHECK(why(WireFormat::complete(666)) == "not this one");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(2, 5, time + std::string(1, '\0'))) == "output: a record of kind 2 with 9 bytes");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(3, 5, time + "x")) == "output: a record of kind 3 with 9 bytes");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(4, 5, "{}")) == "output: a record of kind 4 with 2 bytes");
  heard.reader = BatchReader(heard.take());
  CHECK(why(std::string("\x02\0\0\0\x05\xff\0\0\0", 9)) == "output: a record of kind 2 with 4278190080 bytes");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(2, 5, time + std::string("\0x", 2))) == "output: source 5 has not come");
  heard.reader = BatchReader(heard.take());
  CHECK(why(source + record(1, 5, std::string("\0\0\0\1\0", 5))) == "output: source 5 comes twice");
  heard.reader = BatchReader(heard.take());
  CHECK(why(source + record(2, 5, time + "\4x")) == "output: flags 4 of a batch");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(1, 5, std::string("\0\0\0\0\4", 5))) == "output: flags 4 of a source");
  heard.reader = BatchReader(heard.take());
  CHECK(why(source + record(3, 5, std::string("\x7f\xf8", 2) + std::string(6, '\0'))) ==
        "output: a time that is none");
  heard.reader = BatchReader(heard.take());
  CHECK(why(record(1, 5, std::string("\0\0\x02\x9a\0", 5))) == "not this one");
}

}  // namespace nacre::io
