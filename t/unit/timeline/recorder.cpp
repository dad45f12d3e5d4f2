// SPDX-License-Identifier: Apache-2.0
#include "timeline/recorder.hpp"

#include "catch.hpp"

#include "timeline/facts.hpp"

using namespace nacre;            // NOLINT
using namespace nacre::timeline;  // NOLINT

namespace {

std::string error_of(std::string_view text) {
  auto parsed = TimelineBatch::parse(text);
  return parsed ? "" : parsed.error().message;
}

}  // namespace

TEST_CASE("a recorder that is off keeps nothing, and allocates nothing") {
  Recorder recorder;
  recorder.early.booted = 5;
  recorder.add(Kind::exit, 1, 2);
  recorder.add(Kind::enters, "init");
  CHECK(recorder.events().capacity() == 0);
  CHECK(recorder.names().capacity() == 0);
}

TEST_CASE("what was before it was turned on is kept, once") {
  Recorder recorder;
  recorder.early = {5, 6, 7};
  recorder.turn_on();
  recorder.turn_on();
  REQUIRE(recorder.events().size() == 3);
  CHECK(recorder.events()[0] == TimelineEvent{5, 0, 0, Kind::booted, 0});
  CHECK(recorder.events()[2] == TimelineEvent{7, 0, 0, Kind::joined, 0});
  recorder.turn_off();
  CHECK(recorder.events().capacity() == 0);
}

TEST_CASE("names are kept once, and those that are too many or too long cost little") {
  Recorder recorder;
  recorder.turn_on();
  recorder.add(Kind::enters, "init");
  recorder.add(Kind::passes, "init");
  CHECK(recorder.names() == std::vector<std::string>{"", "init"});
  recorder.add(Kind::mark, std::string(1000, 'x'), 0);
  CHECK(recorder.names().back().size() == Recorder::kMostName);
  for (int i = 0; i < 1000; ++i) recorder.add(Kind::mark, std::to_string(i), 0);
  CHECK(recorder.names().size() == Recorder::kMostNames);
  CHECK(recorder.events().back().name == 0);
}

TEST_CASE("events of ranks beyond the limit are dropped and counted; those of the shell have room") {
  Recorder recorder;
  recorder.turn_on();
  for (std::size_t i = 0; i < Recorder::kMostEvents; ++i) recorder.add(Kind::exit, 1);
  CHECK(recorder.events().size() == Recorder::kMostEvents - Recorder::kForShell);
  CHECK(recorder.dropped() == Recorder::kForShell);
  recorder.add(Kind::enters, "exit");
  CHECK(recorder.events().back().kind == Kind::enters);
  for (std::size_t i = 0; i < Recorder::kMostEvents; ++i) recorder.add(Kind::enters, "exit");
  CHECK(recorder.events().size() == Recorder::kMostEvents);
}

TEST_CASE("a batch is 24 bytes an event, and is read as it was written") {
  TimelineBatch batch;
  batch.number = 3;
  batch.received = 10;
  batch.sent = 12;
  batch.is_last = true;
  batch.clock = "boot";
  batch.dropped = 4;
  batch.names = {"", "init"};
  batch.events = {{INT64_MAX / 2, INT64_MIN, UINT32_MAX, Kind::mark, 1}, {0, -1, 0, Kind::booted, 0}};
  std::string text = batch.text();
  TimelineBatch none = batch;
  none.events.clear();
  CHECK(text.size() == none.text().size() + 2 * 24);
  auto parsed = TimelineBatch::parse(text);
  REQUIRE(parsed);
  CHECK(*parsed == batch);
}

TEST_CASE("a batch fits into a record even with all names") {
  TimelineBatch batch;
  batch.number = UINT64_MAX / 4;
  batch.names.assign(Recorder::kMostNames, std::string(Recorder::kMostName, 'x'));
  batch.events.resize(TimelineBatch::kMostEvents);
  CHECK(batch.text().size() <= std::size_t{64} << 10);
}

TEST_CASE("what is no batch is refused with what is wrong") {
  CHECK(error_of("") == "the head has no end");
  CHECK(error_of("{}\n") == "missing key 'number'");
  std::string head = R"({"number":1,"received":1,"sent":1,"last":true,"dropped":0})";
  CHECK(error_of(head + "\n").empty());
  CHECK(error_of(head + "\nxx") == "the events have a wrong length");
  CHECK(error_of(head + "\n" + std::string(24, '\0')) == "an event of the kind 0 is not known");
  CHECK(error_of(head + "\n" + std::string(8, '\xff') + std::string(13, '\0') + '\1' + std::string(2, '\0')) ==
        "an event has an impossible time");
}

TEST_CASE("what a shell sends once more to another leader is taken once, and nothing behind a gap") {
  ShellTimeline shell;
  auto send = [&](std::uint64_t first, std::int64_t count, std::size_t room) {
    TimelineBatch batch;
    batch.first = first;
    for (std::int64_t i = 0; i < count; ++i)
      batch.events.push_back({1, static_cast<std::int64_t>(first) + i, kNoRank, Kind::mark, 0});
    shell.take(batch, room);
  };
  auto values = [&] {
    std::vector<std::int64_t> out;
    for (const TimelineEvent& each : shell.events) out.push_back(each.value);
    return out;
  };
  send(4, 2, 100);  // this record was on its way to the former leader
  CHECK(shell.events.empty());
  send(0, 3, 100);
  send(3, 3, 100);
  send(4, 2, 100);
  CHECK(values() == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  send(5, 4, 1);
  CHECK(values().back() == 6);
  CHECK(shell.dropped_here == 2);
  send(9, 1, 100);
  CHECK(values().back() == 9);
}
