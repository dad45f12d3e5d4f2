// SPDX-License-Identifier: Apache-2.0
#include "bulk/wire.hpp"

#include "bench.hpp"

namespace nacre::bulk {
namespace {

std::string bytes_of(std::initializer_list<int> values) {
  std::string out;
  for (int each : values) out += static_cast<char>(each);
  return out;
}

std::string why(Direction way, const std::string& bytes) {
  BulkRecordReader reader(way, 10);
  reader.add(bytes);
  auto next = reader.next();
  return next ? "" : next.error().message;
}
std::string why_note(Direction way, const std::string& bytes) {
  NoteReader reader(way);
  reader.add(bytes);
  auto next = reader.next();
  return next ? "" : next.error().message;
}

// A head with these values of its fields, byte by byte.
std::string head(int kind, int channel, int tag, int number, int size) {
  return bytes_of({kind, 0, channel, 0, 0, 0, 0, 0, 0, 0, tag, 0, 0, 0, 0, 0, 0, 0, number, 0, 0, 0, size});
}

}  // namespace

TEST_CASE("a record of an origin, byte by byte") {
  std::string expected =
      bytes_of({1, 0x12, 0x34, 0, 0, 1, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 3, 4, 0, 0, 0, 2}) + "ab";
  CHECK(up_record(0x102, 7, 0x304, "ab", 0x1234) == expected);
  BulkRecordReader reader(Direction::up, 10);
  for (std::size_t size = 0; size < expected.size(); ++size) {
    CHECK_FALSE(reader.next().value());
    reader.add(expected.substr(size, 1));
  }
  auto record = reader.next().value();
  REQUIRE(record);
  CHECK(record->head == Head{BulkKind::data, 0x1234, tag_of(0x102, 7), 0x304, 2});
  CHECK(origin_of(record->head) == 0x102);
  CHECK(attempt_of(record->head) == 7);
  CHECK(record->bytes == "ab");
  CHECK(record->whole == expected);
  CHECK(reader.unread() == 0);
}

TEST_CASE("records one after the other, over the reader's own limits") {
  BulkRecordReader reader(Direction::down, kMaxRecord);
  for (Numbered number = 1; number < 20; ++number) {
    std::string bytes(kMaxRecord - number, static_cast<char>('a' + number));
    std::string whole = down_record(number - 1, number, bytes);
    reader.add(whole.substr(0, 40'000));
    CHECK_FALSE(reader.next().value());
    reader.add(whole.substr(40'000));
    auto record = reader.next().value();
    REQUIRE(record);
    CHECK(record->head.number == number);
    CHECK(record->bytes == bytes);
  }
}

TEST_CASE("what is no record is refused") {
  CHECK(why(Direction::up, head(1, 0, 0, 1, 10)).empty());
  CHECK(why(Direction::up, head(1, 0, 0, 1, 11)) == "a record of 11 bytes; 1 to 10 are allowed");
  CHECK(why(Direction::up, head(1, 0, 0, 1, 0)) == "a record of 0 bytes; 1 to 10 are allowed");
  CHECK(why(Direction::up, head(2, 3, 0, 1, 0)).empty());
  CHECK(why(Direction::up, head(2, 3, 0, 1, 1)) == "the end of channel 3 with 1 bytes");
  CHECK(why(Direction::up, head(1, 0, 0, 0, 1)) == "a record with the number 0");
  CHECK(why(Direction::up, head(3, 0, 0, 1, 0)).empty());
  CHECK(why(Direction::up, head(3, 0, 0, 0, 0)) == "a start with the number 0");
  CHECK(why(Direction::up, head(0, 0, 0, 1, 0)) == "a record of kind 0; 1, 2 and 3 are known");
  CHECK(why(Direction::up, head(4, 0, 0, 1, 0)) == "a record of kind 4; 1, 2 and 3 are known");
  CHECK(why(Direction::down, head(3, 0, 2, 1, 0)).empty());
  CHECK(why(Direction::down, head(3, 1, 2, 1, 0)) == "a start with a channel");
  CHECK(why(Direction::down, head(3, 0, 1, 2, 0)) == "a start that begins before what is kept");
  CHECK(why(Direction::down, head(3, 0, 2, 1, 3)) == "a start of 3 bytes; an even number up to 2048 is allowed");
}

TEST_CASE("the channels of a start ascend") {
  CHECK(ended_channels(bytes_of({0, 1, 1, 0})).value() == std::vector<Channel>{1, 256});
  CHECK_FALSE(ended_channels(bytes_of({0, 1, 0, 1})));
  CHECK_FALSE(ended_channels(bytes_of({1, 0, 0, 1})));
}

TEST_CASE("notes, byte by byte") {
  CHECK(note(BulkHello{false, 0x102}) == bytes_of({1, 0, 0, 0, 0, 0, 0, 0, 1, 2}));
  CHECK(note(BulkHello{true, 0}) == bytes_of({1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
  CHECK(note(Heard{3, 4}) == bytes_of({2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4}));
  CHECK(note(Taken{5, 6}) == bytes_of({3, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6}));
  CHECK(note(Path{}) == bytes_of({4}));
  CHECK(note(Stable{7}) == bytes_of({5, 0, 0, 0, 0, 0, 0, 0, 7}));
  for (const Note& each : {Note(BulkHello{false, 2}), Note(BulkHello{true, 0}), Note(Heard{UINT64_MAX, 1})}) {
    NoteReader reader(Direction::up);
    reader.add(note(each) + note(each).substr(0, 3));
    CHECK(reader.next().value() == each);
    CHECK_FALSE(reader.next().value());
  }
  for (const Note& each : {Note(Taken{4'000'000'000, 2}), Note(Path{}), Note(Stable{1})}) {
    NoteReader reader(Direction::down);
    reader.add(note(each));
    CHECK(reader.next().value() == each);
    CHECK(reader.unread() == 0);
  }
}

TEST_CASE("what is no note, or of the other direction, is refused") {
  CHECK(why_note(Direction::up, note(Path{})) == "a note of kind 4 from below");
  CHECK(why_note(Direction::down, note(BulkHello{})) == "a note of kind 1 from above");
  CHECK(why_note(Direction::up, bytes_of({6})) == "a note of kind 6 from below");
  CHECK(why_note(Direction::down, bytes_of({0})) == "a note of kind 0 from above");
  CHECK(why_note(Direction::up, bytes_of({1, 2, 0, 0, 0, 0, 0, 0, 0, 0})) == "hello: a flag of 2; 0 or 1");
  CHECK(why_note(Direction::up, bytes_of({1, 1, 0, 0, 0, 0, 0, 0, 0, 1})) ==
        "hello: a newcomer that has something");
}

}  // namespace nacre::bulk
