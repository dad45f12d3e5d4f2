// SPDX-License-Identifier: Apache-2.0
#include "transport/link.hpp"

#include <thread>

#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace {

std::string pattern_of(std::size_t size, unsigned seed) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>((i * 7 + i / 251 + seed) & 0xff);
  return out;
}

}  // namespace

TEST_CASE("frames go both ways, whole and in order") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  for (int i = 0; i < 100; ++i) {
    REQUIRE(world.a.link->send(fmt::format("a {}", i)));
    REQUIRE(world.b.link->send(fmt::format("b {}", i)));
  }
  world.run_until([&] { return world.a.frames.size() == 100 && world.b.frames.size() == 100; });
  for (int i = 0; i < 100; ++i) {
    CHECK(world.a.frames[i] == fmt::format("b {}", i));
    CHECK(world.b.frames[i] == fmt::format("a {}", i));
  }
  CHECK(world.refused.empty());
}

TEST_CASE("another thread sends frames while a callback does not return, and first what the callback has sent") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  bool done = false;
  world.a.on_frame = [&](std::string_view) {
    REQUIRE(world.a.link->send("of the callback"));  // the frame goes out once this callback has returned
    for (int i = 0; i < 3; ++i) std::thread([&] { world.a.link->send_beside("beside"); }).join();
    done = true;
  };
  REQUIRE(world.b.link->send("go"));
  world.run_until([&] { return done && world.b.frames.size() == 3; });
  CHECK(world.b.frames == std::vector<std::string>{"of the callback", "beside", "beside"});
  REQUIRE(world.a.link->send("later"));
  world.run_until([&] { return world.b.frames.size() == 4; });
  world.a.link->finish();
  world.a.link->send_beside("too late");
  CHECK(world.b.frames.back() == "later");
}

TEST_CASE("frames of all sizes arrive") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  const std::vector<std::size_t> sizes = {0,     1,     2,         255,      256,           16378,    16379,
                                          16380, 65535, 65536 + 1, 1U << 20, kMaxFrame - 1, kMaxFrame};
  for (std::size_t size : sizes) {
    INFO(size);
    const std::string frame = pattern_of(size, 3);
    REQUIRE(world.a.link->send(frame));
    world.run_until([&] { return world.b.frames.size() == 1; });
    REQUIRE((world.b.frames[0] == frame));
    REQUIRE(world.b.link->send(world.b.frames[0]));
    world.run_until([&] { return world.a.frames.size() == 1; });
    REQUIRE((world.a.frames[0] == frame));
    world.a.frames.clear();
    world.b.frames.clear();
  }
  Result<void> above = world.a.link->send(std::string(kMaxFrame + 1, 'x'));
  REQUIRE_FALSE(above);
  CHECK(above.error().code == EMSGSIZE);
  CHECK(contains(above.error().message, "a frame of 16777217 bytes; at most 16777216 are allowed"));
  CHECK(contains(above.error().message, world.a.link->peer()));
  REQUIRE(world.a.link->send("still works"));
  world.run_until([&] { return world.b.frames.size() == 1; });
}

TEST_CASE("who sends no frame without room, and goes on when there is some, sends as much as it likes") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  world.b.keeps = false;
  constexpr std::size_t kCount = 1600;  // 100 MiB
  const std::string frame(std::size_t{64} << 10, 'x');
  std::size_t sent = 0;
  std::size_t most_queued = 0;
  int paused = 0;
  auto go = [&] {
    for (; sent < kCount && world.a.link->has_room(); ++sent) {
      REQUIRE(world.a.link->send(frame));
      most_queued = std::max(most_queued, world.a.link->queued());
    }
    paused += sent < kCount ? 1 : 0;
  };
  world.a.on_room = go;
  go();
  world.run_until([&] { return world.b.frame_count == kCount; });
  CHECK(paused > 0);
  CHECK(most_queued < std::size_t{1} << 20);
}

TEST_CASE("while one end is held nothing passes, and all that waited does then, in its order") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  REQUIRE(world.a.link->send("before"));
  world.run_until([&] { return world.b.frames.size() == 1; });
  world.a.link->hold(true);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(world.a.link->send(fmt::format("a {}", i)));
    REQUIRE(world.b.link->send(fmt::format("b {}", i)));
  }
  // More than sockets take, so both ends have to wait.
  REQUIRE(world.b.link->send(pattern_of(std::size_t{8} << 20, 1)));
  int rounds = 0;
  auto timer = event::Timer::create(*world.loop, [&] { ++rounds; }).value();
  timer.start(event::Seconds(0.001), event::Seconds(0.001));
  world.run_until([&] { return rounds >= 50; });
  timer.stop();
  CHECK(world.b.frames.size() == 1);
  CHECK(world.a.frames.empty());
  CHECK(world.a.link->queued() > 0);
  world.a.link->hold(false);
  world.run_until([&] { return world.a.frames.size() == 21 && world.b.frames.size() == 21; });
  CHECK(world.a.frames[19] == "b 19");
  CHECK(world.b.frames[20] == "a 19");
  CHECK(world.a.closed + world.b.closed == 0);
}

TEST_CASE("a frame above the reader's limit ends the link before it has come whole") {
  Listener::Options small;
  small.link.session.max_frame = 1000;
  World world(GENERATE(Over::tcp, Over::local), small);
  world.connect();
  REQUIRE(world.a.link->send(std::string(1000, 'x')));
  REQUIRE(world.a.link->send(std::string(1001, 'x')));
  world.run_until([&] { return world.b.closed == 1 && world.a.closed == 1; });
  REQUIRE(world.b.why);
  CHECK(world.b.frame_count == 1);
  CHECK(contains(world.b.why->message, "a frame of 1001 bytes; at most 1000 are allowed"));
  CHECK(world.b.why->message.starts_with(world.b.link->peer()));
  CHECK(world.a.why);
}

TEST_CASE("an end that finishes is still told what the other has to say") {
  World world(GENERATE(Over::tcp, Over::local));
  world.b.finishes_itself = false;
  world.connect();
  REQUIRE(world.a.link->send("last"));
  world.a.link->finish();
  CHECK(world.a.link->send("more").error().code == EPIPE);
  world.run_until([&] { return world.b.finished == 1; });
  CHECK(world.b.frames == std::vector<std::string>{"last"});
  for (int i = 0; i < 10; ++i) REQUIRE(world.b.link->send(pattern_of(100000, i)));
  world.b.link->finish();
  world.run_until([&] { return world.a.closed == 1 && world.b.closed == 1; });
  CHECK_FALSE(world.a.why);
  CHECK_FALSE(world.b.why);
  CHECK(world.a.frames.size() == 10);
  CHECK(world.a.after_closed + world.b.after_closed == 0);
}

TEST_CASE("an end that says nothing about finishing finishes when the other has") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect_unserved();
  world.a.serve();
  int closed = 0;
  std::vector<std::string> frames;
  Link::Callbacks callbacks;
  callbacks.on_frame = [&](std::string_view frame) { frames.emplace_back(frame); };
  callbacks.on_closed = [&](const std::optional<Error>& why) {
    CHECK_FALSE(why);
    ++closed;
  };
  world.b.link->serve(std::move(callbacks));
  REQUIRE(world.b.link->send("a word"));
  REQUIRE(world.a.link->send("another"));
  world.a.link->finish();
  world.run_until([&] { return closed == 1 && world.a.closed == 1; });
  CHECK_FALSE(world.a.why);
  CHECK(world.a.frames == std::vector<std::string>{"a word"});
  CHECK(frames == std::vector<std::string>{"another"});
}

TEST_CASE("both ends finish at once with much on the way") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  for (int i = 0; i < 20; ++i) {
    REQUIRE(world.a.link->send(pattern_of(300000, i)));
    REQUIRE(world.b.link->send(pattern_of(300000, i)));
  }
  world.a.link->finish();
  world.b.link->finish();
  world.run_until([&] { return world.a.closed == 1 && world.b.closed == 1; });
  CHECK_FALSE(world.a.why);
  CHECK_FALSE(world.b.why);
  CHECK(world.a.frames.size() == 20);
  CHECK(world.b.frames.size() == 20);
}

TEST_CASE("an end that aborts hears nothing more, and the other hears of it") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  REQUIRE(world.a.link->send("a word"));
  world.run_until([&] { return world.b.frame_count == 1; });
  world.a.link->abort();
  CHECK(world.a.link->is_closed());
  CHECK(world.a.link->send("more").error().code == EPIPE);
  CHECK(world.a.link->write(1, "more") == 0);
  CHECK_FALSE(world.a.link->grant(1, 1));
  world.a.link->finish();
  world.run_until([&] { return world.b.closed == 1; });
  REQUIRE(world.b.why);
  CHECK(contains(world.b.why->message, "hung up before it had finished"));
  CHECK(world.b.why->message.starts_with(world.b.link->peer()));
  CHECK(world.a.closed == 0);
}

TEST_CASE("a link may be destroyed in each of its callbacks") {
  World world(GENERATE(Over::tcp, Over::local));
  auto where = GENERATE(as<std::string>(), "frame", "bulk", "credit", "finished", "closed");
  world.connect_unserved();
  world.a.serve();
  bool done = false;
  auto destroy = [&](const std::string& in) {
    if (in != where) return;
    world.b.link.reset();
    done = true;
  };
  Link::Callbacks callbacks;
  callbacks.on_frame = [&](std::string_view) { destroy("frame"); };
  callbacks.on_bulk = [&](StreamId, std::string_view) { destroy("bulk"); };
  callbacks.on_credit = [&](StreamId, std::size_t) { destroy("credit"); };
  callbacks.on_finished = [&] { destroy("finished"); };
  callbacks.on_closed = [&](const std::optional<Error>&) { destroy("closed"); };
  world.b.link->serve(std::move(callbacks));
  REQUIRE(world.b.link->grant(7, 100));
  CHECK(world.b.link->write(8, "no credit yet") == 0);
  REQUIRE(world.a.link->grant(8, 10));
  world.run_until([&] { return done || where == "finished" || world.a.link->write(7, "x") == 1; });
  if (!done) {
    for (int i = 0; i < 3; ++i) REQUIRE(world.a.link->send("one of several"));
    world.a.link->finish();
  }
  if (where == "closed") world.run_until([&] { return world.a.link->queued() == 0; });
  if (where == "closed") world.a.link->abort();
  world.run_until([&] { return done; });
  CHECK(world.b.link == nullptr);
  if (where != "closed") world.run_until([&] { return world.a.closed == 1; });
}

TEST_CASE("what was sent right behind the handshake waits until the link is served") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect_unserved();
  REQUIRE(world.a.link->send("early"));
  REQUIRE(world.b.link->send("early too"));
  for (int i = 0; i < 5; ++i) world.loop->poll();
  world.a.serve();
  world.b.serve();
  CHECK(world.a.frame_count == 0);  // never from within a call
  world.run_until([&] { return world.a.frame_count == 1 && world.b.frame_count == 1; });
}

TEST_CASE("control frames that the other end does not take are refused at a limit") {
  Dialer::Options options;
  options.link.session.max_control = 1U << 20;
  World world(GENERATE(Over::tcp, Over::local), {}, options);
  world.connect_unserved();  // the other end reads nothing
  world.a.serve();
  Result<void> sent;
  int count = 0;
  while ((sent = world.a.link->send(std::string(60000, 'x')))) ++count;
  CHECK(sent.error().code == ENOBUFS);
  CHECK(contains(sent.error().message, "has not taken"));
  CHECK(world.a.link->queued() < (1U << 20) + (1U << 17));
  world.b.serve();
  world.run_until([&] { return world.b.frame_count == static_cast<std::size_t>(count); });
  CHECK(world.a.link->send("room again"));
}

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
  CHECK_FALSE(a.take_room());  // there always was room
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
  CHECK_FALSE(a.next_ready());  // the stream is returned once
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
