// SPDX-License-Identifier: Apache-2.0
#include "transport/link.hpp"

#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace {

// What comes out of `from` in one fill, as seen by `to`.
std::string passed(LinkSession& from, LinkSession& to, std::size_t target = 1U << 20) {
  std::string bytes;
  from.fill(bytes, target);
  to.receive(bytes);
  std::string seen;
  for (;;) {
    auto arrival = to.next();
    if (!arrival) return seen + "error: " + arrival.error().message;
    if (!*arrival) return seen;
    switch ((*arrival)->kind) {
      case Arrival::Kind::frame: seen += fmt::format("frame '{}' ", (*arrival)->bytes); break;
      case Arrival::Kind::bulk: seen += fmt::format("{} '{}' ", (*arrival)->stream, (*arrival)->bytes); break;
      case Arrival::Kind::end: seen += fmt::format("end {} ", (*arrival)->stream); break;
      case Arrival::Kind::finish: seen += "finish "; break;
    }
  }
}

}  // namespace

TEST_CASE("frames go before bulk that waits") {
  LinkSession a;
  LinkSession b;
  REQUIRE(b.grant(1, 100));
  CHECK(passed(b, a).empty());
  CHECK(a.write(1, "bulk") == 4);
  REQUIRE(a.send("frame"));
  CHECK(a.write(1, "more") == 4);
  CHECK(passed(a, b) == "frame 'frame' 1 'bulkmore' ");
}

TEST_CASE("a frame that is cut by a fill is not cut by anything else") {
  LinkSession a;
  LinkSession b;
  REQUIRE(a.send("a long frame"));
  CHECK(passed(a, b, 8).empty());
  REQUIRE(a.grant(5, 10));
  REQUIRE(a.send("another"));
  std::string seen;
  while (a.queued_control() > 0) seen += passed(a, b, 8);
  CHECK(seen == "frame 'a long frame' frame 'another' ");
  passed(a, b);
  CHECK(b.credit(5) == 10);
}

TEST_CASE("whether frames had better wait is told, and once when they need not any more") {
  SessionLimits limits;
  limits.enough_control = 1000;
  LinkSession a(limits);
  LinkSession b;
  REQUIRE(a.send(std::string(900, 'x')));
  CHECK(a.has_room());
  passed(a, b);
  CHECK_FALSE(a.take_room());  // it always had some
  for (int i = 0; i < 2; ++i) REQUIRE(a.send(std::string(900, 'x')));
  CHECK_FALSE(a.has_room());
  CHECK_FALSE(a.take_room());
  passed(a, b, 900);
  CHECK(a.has_room());
  CHECK(a.owes_room());
  CHECK(a.take_room());
  CHECK_FALSE(a.take_room());
}

TEST_CASE("bulk goes as far as there is credit") {
  LinkSession a;
  LinkSession b;
  CHECK(a.write(1, "hello") == 0);
  CHECK_FALSE(a.next_ready());
  REQUIRE(b.grant(1, 3));
  REQUIRE(b.grant(1, 1));
  passed(b, a);
  CHECK(a.credit(1) == 4);
  CHECK(a.next_ready() == std::pair(StreamId{1}, std::size_t{4}));
  CHECK_FALSE(a.next_ready());  // once
  CHECK(a.write(1, "hello") == 4);
  CHECK(passed(a, b) == "1 'hell' ");
  REQUIRE(b.grant(2, 10));
  passed(b, a);
  CHECK_FALSE(a.next_ready());  // stream 2 has not asked, and 1 has no credit
  CHECK(a.write(2, "x") == 1);
}

TEST_CASE("who could write in the end is not told of room") {
  SessionLimits limits;
  limits.max_bulk = 10;
  LinkSession a(limits);
  LinkSession b;
  REQUIRE(b.grant(1, 100));
  REQUIRE(b.grant(2, 100));
  passed(b, a);
  for (int i = 0; i < 1000; ++i) {
    CHECK(a.write(1, "0123456789abcdef") == 10);
    CHECK(a.write(2, "0123") == 0);
    passed(a, b);
    CHECK(a.write(1, "abcdef") == 6);
    auto ready = a.next_ready();
    REQUIRE(ready);
    CHECK(*ready == std::pair(StreamId{2}, std::size_t{4}));
    CHECK_FALSE(a.next_ready());
    passed(a, b);
    REQUIRE(b.grant(1, 16));
    passed(b, a);
  }
}

TEST_CASE("bulk without credit, and too much credit, are errors") {
  SessionLimits limits;
  limits.max_streams = 3;
  std::string bytes;
  append_bulk_head(bytes, 9, 1);
  bytes += 'x';
  LinkSession a(limits);
  a.receive(bytes);
  CHECK(a.next().error().message == "1 bytes of stream 9, which has credit for 0");

  LinkSession b(limits);
  REQUIRE(b.grant(9, 4));
  bytes.clear();
  append_bulk_head(bytes, 9, 5);
  b.receive(bytes + "12345");
  CHECK(b.next().error().message == "5 bytes of stream 9, which has credit for 4");
  CHECK(b.grant(9, kMaxCredit).error().code == ERANGE);
  CHECK(b.grant(9, SIZE_MAX).error().code == ERANGE);
  REQUIRE(b.grant(9, kMaxCredit - 4));
  REQUIRE(b.grant(1, 1));
  REQUIRE(b.grant(2, 1));
  CHECK(b.grant(3, 1).error().code == EMFILE);

  LinkSession c(limits);
  bytes.clear();
  append_credit(bytes, 1, kMaxCredit);
  append_credit(bytes, 1, 1);
  c.receive(bytes);
  CHECK(contains(c.next().error().message, "credit of 1 bytes for stream 1"));

  LinkSession d(limits);
  bytes.clear();
  for (StreamId stream = 0; stream < 4; ++stream) append_credit(bytes, stream, 1);
  d.receive(bytes);
  CHECK(d.next().error().message == "credit for more than 3 streams");

  LinkSession e(limits);
  bytes.clear();
  for (StreamId stream = 0; stream < 4; ++stream) append_stream_record(bytes, LinkRecordKind::end, stream);
  e.receive(bytes);
  for (int i = 0; i < 3; ++i) REQUIRE(e.next());
  CHECK(contains(e.next().error().message, "3 streams ended"));
}

TEST_CASE("a stream ends behind what was written, and may begin anew") {
  LinkSession a;
  LinkSession b;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(b.grant(4, 6));
    passed(b, a);
    CHECK(a.credit(4) == 6);
    CHECK(a.write(4, "last") == 4);
    REQUIRE(a.end(4));
    CHECK(a.end(4).error().code == EALREADY);
    CHECK(a.write(4, "x") == 0);
    CHECK(passed(a, b) == "4 'last' end 4 ");
    CHECK(a.credit(4) == 2);  // until the other end has said that it has seen the end
    passed(b, a);
    CHECK(a.credit(4) == 0);
  }
}

TEST_CASE("what was left of a stream's credit ends with it") {
  LinkSession b;
  REQUIRE(b.grant(4, 6));
  std::string bytes;
  append_stream_record(bytes, LinkRecordKind::end, 4);
  append_bulk_head(bytes, 4, 1);
  b.receive(bytes + "x");
  CHECK(b.next().value()->kind == Arrival::Kind::end);
  CHECK(b.next().error().message == "1 bytes of stream 4, which has credit for 0");
}

TEST_CASE("after the last frame only credit") {
  LinkSession a;
  LinkSession b;
  REQUIRE(a.grant(1, 10));
  passed(a, b);
  REQUIRE(a.send("x"));
  a.finish();
  CHECK(a.send("y").error().code == EPIPE);
  CHECK(a.end(1).error().code == EPIPE);
  CHECK(a.write(1, "y") == 0);
  CHECK(passed(a, b) == "frame 'x' finish ");
  CHECK(a.has_finished());
  CHECK(b.peer_has_finished());
  CHECK(b.write(1, "0123456789abcdef") == 10);
  CHECK(passed(b, a) == "1 '0123456789' ");
  REQUIRE(a.grant(1, 6));
  CHECK(passed(a, b).empty());
  CHECK(b.write(1, "abcdef") == 6);
  b.finish();
  CHECK(passed(b, a) == "1 'abcdef' finish ");
  std::string bytes;
  append_frame_head(bytes, 0);
  a.receive(bytes);
  CHECK(a.next().error().message == "a record of kind 1 after the last one");
}

TEST_CASE("finishing waits for all that was taken") {
  LinkSession a;
  LinkSession b;
  REQUIRE(b.grant(1, 100000));
  passed(b, a);
  CHECK(a.write(1, std::string(100000, 'x')) == 100000);
  a.finish();
  std::string all;
  int fills = 0;
  while (!a.has_finished()) {
    ++fills;
    all += passed(a, b, 1);
  }
  CHECK(fills == 7);  // chunks
  CHECK(all.ends_with("' finish "));
}
