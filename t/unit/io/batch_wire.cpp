// SPDX-License-Identifier: Apache-2.0
#include "io/format.hpp"

#include <vector>

#include <fmt/format.h>
#include "catch.hpp"

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
  WireFormat format(Stream::out, true);
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
