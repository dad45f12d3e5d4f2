// SPDX-License-Identifier: Apache-2.0
#include "io/format.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "catch.hpp"

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

// Writes random bytes of the sources by turns; the result is what each wrote.
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
