// SPDX-License-Identifier: Apache-2.0
#include "overlay/collective.hpp"

#include "catch.hpp"

#include "overlay/node.hpp"
#include "overlay/uplink.hpp"
#include "overlay/wire.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

namespace {

Value all(Merge merge, const std::vector<Own>& parts) {
  Value out = value_of(merge, 0, parts[0]).value();
  for (Id id = 1; id < parts.size(); ++id) merge_into(merge, out, value_of(merge, id, parts[id]).value());
  auto decoded = decode_value(merge, encode_value(out));
  REQUIRE(decoded);
  CHECK(*decoded == out);
  return out;
}

Own n(std::int64_t number) { return number; }
Own b(const char* bytes) { return Bytes(bytes); }

}  // namespace

TEST_CASE("the ends of very many tasks go up in several messages, each with sets that the other end takes",
          "[long]") {
  constexpr Id kTasks = 200'000;
  std::vector<Id> ids(kTasks);
  for (Id i = 0; i < kTasks; ++i) ids[i] = 2 * i;
  Idset even = Idset::of(ids);
  REQUIRE(even.str().size() > kMaxIds);
  Reports reports;
  reports.add_exited({even, "x1"});
  reports.add_gone(even);
  Idset started;
  Idset exited;
  Idset gone;
  for (Up up; reports.take_unsent(up); up = {}) {
    Message message{1, 1, up};
    auto frame = encode(message);
    REQUIRE(frame);
    REQUIRE(decode(*frame));
    started.insert(up.started);
    gone.insert(up.gone);
    for (const TaskReport& each : up.exited) {
      CHECK((exited & each.tasks).empty());
      exited.insert(each.tasks);
    }
  }
  CHECK(started == even);
  CHECK(exited == even);
  CHECK(gone == even);
}

TEST_CASE("parts merge as their kind says, and equal ones are stored once") {
  CHECK(all(Merge::sum, {n(1), n(-5), n(9)}) == Value(std::int64_t{5}));
  CHECK(all(Merge::max, {n(-7), n(-5), n(-9)}) == Value(std::int64_t{-5}));
  CHECK(all(Merge::sum, {n(INT64_MAX), n(1)}) == Value(std::int64_t{INT64_MAX}));
  CHECK(all(Merge::sum, {n(INT64_MIN), n(-1)}) == Value(std::int64_t{INT64_MIN}));
  CHECK(all(Merge::set, {b("y"), b("x"), b("y")}) == Value(Unique{"x", "y"}));
  CHECK(all(Merge::gather, {b("y"), b("x"), b("y")}) ==
        Value(Gathered{{"x", Idset::range(1, 1)}, {"y", *Idset::parse("0,2")}}));
}

TEST_CASE("a part of the wrong kind or size is refused") {
  CHECK_FALSE(value_of(Merge::sum, 0, b("x")));
  CHECK_FALSE(value_of(Merge::set, 0, n(1)));
  CHECK(value_of(Merge::gather, 0, Bytes(kMaxPart, 'x')));
  CHECK(value_of(Merge::gather, 0, Bytes(kMaxPart + 1, 'x')).error().code == EMSGSIZE);
}

TEST_CASE("values that are malformed are refused") {
  CHECK_FALSE(decode_value(Merge::sum, "\x41x"));
  CHECK_FALSE(decode_value(Merge::sum, "\x1b\xff\xff\xff\xff\xff\xff\xff\xff"));
  CHECK_FALSE(decode_value(Merge::set, "\x05"));
  CHECK_FALSE(decode_value(Merge::set, "\x82\x41y\x41x"));
  CHECK_FALSE(decode_value(Merge::set, "\x81\x05"));
  CHECK_FALSE(decode_value(Merge::gather, "\x81\x41x"));
  CHECK_FALSE(decode_value(Merge::gather, "\x81\x82\x61z\x41x"));
  CHECK(decode_value(Merge::gather, "\x81\x82\x61\x30\x41x"));
}

TEST_CASE("a value is cut into pieces, which make it again, in order only") {
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, kPiece, kPiece + 1, 3 * kPiece}) {
    Bytes bytes(size, 'v');
    Pieces pieces;
    std::size_t count = 0;
    bool whole = false;
    cut(bytes, kPiece, [&](std::size_t at, std::size_t total, const Bytes& data) {
      ++count;
      CHECK_FALSE(whole);
      if (at > 0) CHECK_FALSE(pieces.add(at + 1, total, data));
      whole = pieces.add(at, total, data);
      CHECK_FALSE(pieces.add(at + kPiece + 1, total, data));
    });
    CHECK(whole);
    CHECK(count == std::max<std::size_t>(1, (size + kPiece - 1) / kPiece));
    CHECK(pieces.take() == bytes);
  }
}

TEST_CASE("a piece from the beginning starts over") {
  Pieces pieces;
  CHECK_FALSE(pieces.add(0, 4, "ab"));
  CHECK_FALSE(pieces.add(0, 3, "x"));
  CHECK(pieces.add(1, 3, "yz"));
  CHECK(pieces.take() == "xyz");
}

TEST_CASE("the log drops from its beginning, never beyond its end") {
  EntryLog log;
  for (Seq seq = 1; seq <= 5; ++seq) log.append({seq, {}, End{0}}, 1);
  log.drop(3);
  CHECK(log.first() == 4);
  CHECK(log.find(3) == nullptr);
  REQUIRE(log.find(4) != nullptr);
  CHECK(log.find(4)->seq == 4);
  log.drop(9);
  CHECK(log.last() == 5);
  CHECK(log.first() == 6);
  log.append({6, {}, End{0}}, 1);
  CHECK(log.find(6)->seq == 6);
  log.start_after(20, 1);
  CHECK(log.last() == 20);
}

TEST_CASE("reports are told once, until they are offered again; an exit implies a start") {
  Reports reports;
  reports.add_exited({*Idset::parse("3"), "x0"});
  reports.add_exited({*Idset::parse("5"), "x0"});
  Up up;
  REQUIRE(reports.take_unsent(up));
  CHECK(up.started.str() == "3,5");
  REQUIRE(up.exited.size() == 1);
  CHECK(up.exited[0].tasks.str() == "3,5");
  CHECK_FALSE(reports.take_unsent(up = {}));
  reports.add_started(*Idset::parse("5-6"));
  REQUIRE(reports.take_unsent(up = {}));
  CHECK(up.started.str() == "6");
  reports.offer_again();
  REQUIRE(reports.take_unsent(up = {}));
  CHECK(up.started.str() == "3,5-6");
  CHECK(up.exited.size() == 1);
}

TEST_CASE("reports that are too many for one message go in several") {
  Reports reports;
  for (Id task = 0; task < 100; ++task) {
    reports.add_exited({Idset::range(task, task), Bytes(20'000, static_cast<char>(task))});
  }
  Idset told;
  int messages = 0;
  for (Up up; reports.take_unsent(up); up = {}, ++messages) {
    CHECK(encode({1, 1, up}));
    for (const TaskReport& each : up.exited) told = told | each.tasks;
  }
  CHECK(told.str() == "0-99");
  CHECK(messages > 1);
}

TEST_CASE("requests are kept until their origin has an answer to them or to a later one") {
  Requests requests;
  CHECK(requests.add({{3, 1}, End{0}}));
  CHECK_FALSE(requests.add({{3, 1}, End{0}}));
  CHECK(requests.add({{3, 2}, End{0}}));
  CHECK(requests.add({{4, 1}, End{0}}));
  requests.answered({3, 2});
  CHECK(requests.pending().size() == 1);
  CHECK_FALSE(requests.add({{3, 1}, End{0}}));
  CHECK(requests.add({{3, 5}, End{0}}));
  CHECK(requests.add({{3, 3}, End{0}}));  // by another way
  CHECK_FALSE(requests.add({{3, 5}, End{0}}));
  std::vector<RequestId> pending;
  for (const Request& each : requests.pending()) pending.push_back(each.id);
  CHECK(pending == std::vector<RequestId>{{3, 3}, {3, 5}, {4, 1}});
  requests.answered({3, 3});
  requests.answered({4, 2});
  CHECK(requests.pending().size() == 1);
  CHECK(requests.pending().front().id == RequestId{3, 5});
}
