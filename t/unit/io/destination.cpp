// SPDX-License-Identifier: Apache-2.0
#include "io/sink.hpp"

#include "catch.hpp"

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT

namespace {

struct FakeSink final : Sink {
  std::string text;
  bool taking = true;
  std::optional<Error> error;

  Result<void> write(std::span<const std::string_view> pieces) override {
    if (error) return *error;
    for (std::string_view piece : pieces) text += piece;
    return {};
  }
  bool takes() override { return taking; }
  [[nodiscard]] bool full() const override { return false; }
  [[nodiscard]] bool flushed() const override { return true; }
  [[nodiscard]] std::uint64_t written() const override { return text.size(); }
  [[nodiscard]] std::uint64_t taken() const override { return text.size(); }
};

struct DestinationFixture {
  Source out{0, Stream::out, "0: "};
  Source err{0, Stream::err, "0: "};
  FakeSink* sink = nullptr;
  std::unique_ptr<Destination> destination;

  void use(std::optional<std::uint64_t> limit, const FormatOptions& options = {}) {
    auto made = std::make_unique<FakeSink>();
    sink = made.get();
    destination = std::make_unique<Destination>(Format::create(options), std::move(made), limit);
  }
  void put(const Source& source, std::string_view body, std::string_view head = "", double time = 1) {
    REQUIRE(destination->put({&source, time, head, body, false, false}));
  }
  std::string written() { return std::exchange(sink->text, ""); }
  [[nodiscard]] const Destination::Lost& lost(Stream stream = Stream::out) const {
    return destination->lost(stream);
  }
};

const std::string kCutOut = "[stdout is cut here: output.limit is 10 bytes]\n";
const std::string kCutErr = "[stderr is cut here: output.limit is 10 bytes]\n";

}  // namespace

TEST_CASE_METHOD(DestinationFixture, "without a limit all goes to the sink in its format") {
  use(std::nullopt, {Form::text, true, Timestamps::none});
  put(out, "body\n", "head ");
  put(err, std::string(100'000, 'x') + "\n");
  CHECK((written() == "0: head body\n0: " + std::string(100'000, 'x') + "\n"));
  put(out, "open");
  REQUIRE(destination->end(out, 1));
  REQUIRE(destination->notice("said", 1));
  CHECK(written() == "0: open\nsaid\n");
  CHECK(&destination->sink() == sink);
  CHECK(lost().over_limit == 0);
  CHECK(lost().dropped == 0);
}

TEST_CASE_METHOD(DestinationFixture, "a limit cuts at its byte, says so once, and counts the rest") {
  use(10);
  put(out, "1234\n");
  put(out, "567\n89\n");
  CHECK(written() == "1234\n567\n8\n" + kCutOut);
  CHECK(lost().over_limit == 2);
  put(out, "more\n");
  put(out, "x", "yz");
  CHECK(written().empty());
  CHECK(lost().over_limit == 10);
  CHECK(lost(Stream::err).over_limit == 0);
  CHECK(lost().dropped == 0);
}

TEST_CASE_METHOD(DestinationFixture, "what fits the limit exactly is not cut") {
  use(10);
  put(out, "12345678\n");
  put(out, "\n");
  CHECK(written() == "12345678\n\n");
  CHECK(lost().over_limit == 0);
  REQUIRE(destination->end(out, 1));
  CHECK(written().empty());
  put(out, "\n");
  CHECK(written() == kCutOut);
  CHECK(lost().over_limit == 1);
}

TEST_CASE_METHOD(DestinationFixture, "a limit cuts within the head and between head and body") {
  use(10);
  put(out, "body\n", "a head over it ");
  CHECK(written() == "a head ove\n" + kCutOut);
  CHECK(lost().over_limit == 10);
  put(err, "body\n", "its head: ");
  CHECK(written() == "its head: \n" + kCutErr);
  CHECK(lost(Stream::err).over_limit == 5);
}

TEST_CASE_METHOD(DestinationFixture, "each stream has the limit for itself, all its tasks together") {
  use(10);
  Source other{1, Stream::out, "1: "};
  put(out, "1234\n");
  put(err, "123456789\n");
  put(other, "5678\n");
  CHECK(written() == "1234\n123456789\n5678\n");
  put(other, "x\n");
  CHECK(written() == kCutOut);
  put(out, "x\n");
  CHECK(written().empty());
  put(err, "xyz\n");
  CHECK(written() == kCutErr);
  CHECK(lost().over_limit == 4);
  CHECK(lost(Stream::err).over_limit == 4);
}

TEST_CASE_METHOD(DestinationFixture, "a limit of zero lets nothing through") {
  use(0);
  put(out, "a\n");
  CHECK(written() == "[stdout is cut here: output.limit is 0 bytes]\n");
  CHECK(lost().over_limit == 2);
}

TEST_CASE_METHOD(DestinationFixture, "a limit counts what tasks wrote, not what it became") {
  use(10, {Form::json});
  put(out, "12345678\n");
  put(out, "\nx", "", 2);
  CHECK(written() == R"({"time":1.000000,"rank":0,"stream":"stdout","data":"12345678"})"
                     "\n"
                     R"({"time":2.000000,"rank":0,"stream":"stdout","data":""})"
                     "\n"
                     R"({"time":2.000000,"notice":"[stdout is cut here: output.limit is 10 bytes]"})"
                     "\n");
}

TEST_CASE_METHOD(DestinationFixture, "what a sink does not take is counted, and said where it is missing") {
  use(std::nullopt);
  put(out, "taken\n");
  sink->taking = false;
  put(out, "two\nlines\n");
  put(out, "\nof both", "on\ne ");
  put(err, "x\n");
  CHECK(written() == "taken\n");
  CHECK(lost().dropped == 23);
  CHECK(lost().dropped_lines == 5);
  CHECK(lost(Stream::err).dropped == 2);
  CHECK(lost(Stream::err).dropped_lines == 1);
  sink->taking = true;
  put(out, "again\n");
  put(out, "and on\n");
  CHECK(written() == "[6 lines, 25 bytes dropped here: the reader is too slow]\nagain\nand on\n");
  sink->taking = false;
  put(err, "y\n");
  sink->taking = true;
  put(err, "z\n");
  CHECK(written() == "[1 lines, 2 bytes dropped here: the reader is too slow]\nz\n");
  CHECK(lost(Stream::err).dropped == 4);
  CHECK(lost(Stream::err).dropped_lines == 2);
  CHECK(lost().over_limit == 0);
}

TEST_CASE_METHOD(DestinationFixture, "what was dropped is said at a source's end too") {
  use(std::nullopt, {Form::eventlog});
  sink->taking = false;
  put(out, "x\n");
  REQUIRE(destination->end(out, 2));
  std::string log = written();
  CHECK(log.find("[1 lines, 2 bytes dropped here: the reader is too slow]") < log.find("\"eof\":true"));
  CHECK(log.find("\"eof\":true") != std::string::npos);
  REQUIRE(destination->end(err, 3));
  CHECK(written().find("dropped") == std::string::npos);
}

TEST_CASE_METHOD(DestinationFixture, "a line of which the end was dropped is ended before the notice") {
  use(std::nullopt, {Form::text, true, Timestamps::none});
  REQUIRE(destination->put({&out, 1, {}, "begun", false, true}));
  sink->taking = false;
  REQUIRE(destination->put({&out, 1, {}, " and dropped", true, true}));
  sink->taking = true;
  REQUIRE(destination->put({&out, 1, {}, "end\n", true, false}));
  CHECK(written() == "0: begun\n[1 lines, 12 bytes dropped here: the reader is too slow]\n0: end\n");
}

TEST_CASE_METHOD(DestinationFixture, "where output is cut, what was dropped before comes first") {
  use(10);
  sink->taking = false;
  put(out, "12\n");
  SECTION("the sink takes again") {
    sink->taking = true;
    put(out, "3456\n78\n");
    CHECK(written() == "[1 lines, 3 bytes dropped here: the reader is too slow]\n3456\n78" + ("\n" + kCutOut));
    CHECK(lost().dropped == 3);
    CHECK(lost().over_limit == 1);
  }
  SECTION("it does not") {
    put(out, "3456\n78\n");
    CHECK(written() == "[3 lines, 10 bytes dropped here: the reader is too slow]\n" + kCutOut);
    CHECK(lost().dropped == 10);
    CHECK(lost().over_limit == 1);
  }
  REQUIRE(destination->end(out, 1));
  CHECK(written().empty());
}

TEST_CASE_METHOD(DestinationFixture, "a sink's error is the destination's") {
  use(10);
  sink->error = Error{EPIPE, "gone"};
  CHECK(destination->put({&out, 1, {}, "x\n"}).error().code == EPIPE);
  CHECK(destination->put({&out, 1, {}, "0123456789\n"}).error().message == "gone");
  CHECK(destination->end(out, 1).error().code == EPIPE);
  CHECK(destination->notice("x", 1).error().code == EPIPE);
}
