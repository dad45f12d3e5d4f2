// SPDX-License-Identifier: Apache-2.0
#include "transport/wire.hpp"

#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace {

std::string record_of_length(std::uint32_t length, int kind, const std::string& body = {}) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((length >> shift) & 0xff);
  if (kind >= 0) out += static_cast<char>(kind);
  return out + body;
}

std::string said_of(const std::string& bytes) {
  LinkRecordReader reader;
  reader.add(bytes);
  auto record = reader.next();
  if (!record) return record.error().message;
  return *record ? "whole" : "";
}

}  // namespace

TEST_CASE("records as they are on the wire") {
  std::string out;
  append_frame_head(out, 5);
  out += "hello";
  CHECK(out == record_of_length(6, 1, "hello"));
  out.clear();
  append_bulk_head(out, 0x01020304, 2);
  CHECK(out == record_of_length(7, 2, "\x01\x02\x03\x04"));
  out.clear();
  append_credit(out, 1, 0x10203);
  CHECK(out == record_of_length(9, 3, std::string("\0\0\0\1\0\1\2\3", 8)));
  out.clear();
  append_stream_record(out, LinkRecordKind::end, 255);
  append_stream_record(out, LinkRecordKind::ended, 255);
  append_finish(out);
  CHECK(out == record_of_length(5, 4, std::string("\0\0\0\xff", 4)) +
                   record_of_length(5, 5, std::string("\0\0\0\xff", 4)) + record_of_length(1, 6));
}

TEST_CASE("records come out of pieces of any size") {
  std::string bytes = record_of_length(6, 1, "hello") + record_of_length(1, 1) +
                      record_of_length(7, 2, std::string("\0\0\0\7xy", 6)) +
                      record_of_length(9, 3, std::string("\0\0\0\7\0\0\0\1", 8)) + record_of_length(1, 6);
  auto piece = GENERATE(range<std::size_t>(1, 33));
  LinkRecordReader reader;
  std::string seen;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.add(std::string_view(bytes).substr(at, piece));
    for (;;) {
      auto record = reader.next();
      REQUIRE(record);
      if (!*record) break;
      seen += fmt::format("{} {} {} '{}'\n", static_cast<int>((*record)->kind), (*record)->stream,
                          (*record)->credit, (*record)->body);
    }
  }
  CHECK(seen == "1 0 0 'hello'\n1 0 0 ''\n2 7 0 'xy'\n3 7 1 ''\n6 0 0 ''\n");
  CHECK(reader.unread() == 0);
}

TEST_CASE("what is no record is refused by its head") {
  CHECK(contains(said_of(record_of_length(0, 0)), "a record of no bytes"));
  CHECK(contains(said_of(record_of_length(1, 0)), "unknown kind 0"));
  CHECK(contains(said_of(record_of_length(1, 7)), "unknown kind 7"));
  CHECK(contains(said_of("GET / HTTP/1.1\r\n"), "unknown kind 47"));
  CHECK(said_of(record_of_length(0xffffffff, 1)) == "a frame of 4294967294 bytes; at most 16777216 are allowed");
  CHECK(said_of(record_of_length(kMaxFrame + 2, 1)) == "a frame of 16777217 bytes; at most 16777216 are allowed");
  CHECK(said_of(record_of_length(kMaxFrame + 1, 1)).empty());  // more has to come
  CHECK(contains(said_of(record_of_length(5, 2)), "a record of kind 2 with 4 bytes; it has 5 to"));
  CHECK(said_of(record_of_length(5 + kMaxChunk, 2)).empty());
  CHECK(contains(said_of(record_of_length(6 + kMaxChunk, 2)), "a record of kind 2 with"));
  CHECK(contains(said_of(record_of_length(8, 3)), "a record of kind 3 with 7 bytes"));
  CHECK(contains(said_of(record_of_length(6, 4)), "a record of kind 4 with 5 bytes"));
  CHECK(contains(said_of(record_of_length(2, 6)), "a record of kind 6 with 1 bytes"));
  CHECK(contains(said_of(record_of_length(9, 3, std::string(8, '\0'))), "a credit of 0 bytes"));
  CHECK(contains(said_of(record_of_length(9, 3, std::string("\0\0\0\1\x40\0\0\1", 8))), "a credit of 1073741825"));
}

TEST_CASE("a reader's own limit of a frame") {
  LinkRecordReader reader(10);
  reader.add(record_of_length(11, 1, std::string(10, 'x')) + record_of_length(12, 1));
  CHECK(reader.next().value()->body.size() == 10);
  CHECK(reader.next().error().code == EMSGSIZE);
}
