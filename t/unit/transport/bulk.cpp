// SPDX-License-Identifier: Apache-2.0
//
// Bulk beside control frames, on real sockets.
#include <sys/socket.h>

#include "fewer.hpp"
#include "transport/link.hpp"
#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace {

// Bytes that tell where in the stream they stand.
class Sequence {
 public:
  static constexpr std::size_t kPeriod = 65521;
  Sequence() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<char>((i % kPeriod * 2654435761U) >> 13);
    }
  }
  [[nodiscard]] std::string_view at(std::size_t offset, std::size_t size) const {
    return std::string_view(bytes_).substr(offset % kPeriod, size);
  }
  [[nodiscard]] bool is_at(std::size_t offset, std::string_view bytes) const {
    return at(offset, bytes.size()) == bytes;
  }

 private:
  std::string bytes_ = std::string(2 * kPeriod, '\0');
};

constexpr std::size_t kPiece = 60000;

// Writes a stream as far as it goes.
struct Writer {
  Link& link;
  const Sequence& sequence;
  StreamId stream;
  std::size_t total;
  std::size_t taken = 0;
  std::size_t most_queued = 0;
  bool ended = false;

  void go() {
    while (taken < total) {
      std::size_t size = std::min(kPiece, total - taken);
      std::size_t more = link.write(stream, sequence.at(taken, size));
      taken += more;
      most_queued = std::max(most_queued, link.queued());
      if (more < size) return;
    }
    if (!std::exchange(ended, true)) REQUIRE(link.end(stream));
  }
};

// A link's queue, a batch on its way to the socket, what TLS adds to it, and a frame or two.
constexpr std::size_t kMostQueued = (256U << 10) + (64U << 10) + (32U << 10);

}  // namespace

TEST_CASE("very much bulk, and control frames that are never behind what was written after them") {
  Sequence sequence;
  World world(GENERATE(Over::tcp, Over::local));
  const std::size_t total = kit::fewer(std::size_t{1} << (world.over == Over::tcp ? 30 : 28), std::size_t{8});
  world.a.keeps = world.b.keeps = false;
  world.connect();
  Writer writer{*world.a.link, sequence, 1, total};
  world.a.on_credit = [&](StreamId, std::size_t) { writer.go(); };
  std::size_t sent = 0;
  std::size_t behind = 0;   // frames behind bulk that was written after them
  std::size_t wrong = 0;    // pieces of bulk
  std::size_t between = 0;  // frames that came before the last of the bulk
  world.b.regrants = 1;
  world.b.on_bulk = [&](StreamId, std::string_view bytes) {
    wrong += !sequence.is_at(world.b.bulk_bytes[1] - bytes.size(), bytes);
  };
  world.b.on_frame = [&](std::string_view frame) {
    behind += world.b.bulk_bytes[1] > std::stoull(std::string(frame));
    between += world.b.ended.empty();
  };
  auto timer = event::Timer::create(*world.loop, [&] {
                 REQUIRE(world.a.link->send(std::to_string(writer.taken)));
                 ++sent;
               }).value();
  timer.start(event::Seconds(0.001), event::Seconds(0.001));
  REQUIRE(world.b.link->grant(1, std::size_t{4} << 20));
  writer.go();
  world.run_until([&] { return !world.b.ended.empty(); });
  timer.stop();
  world.run_until([&] { return world.b.frame_count == sent; });
  CHECK(world.b.bulk_bytes[1] == total);
  CHECK(wrong == 0);
  CHECK(behind == 0);
  CHECK(between > 0);
  CHECK(writer.most_queued <= kMostQueued);
}

TEST_CASE("a frame overtakes the bulk that waits for a reader, of which a bounded part is kept") {
  Sequence sequence;
  World world(GENERATE(Over::tcp, Over::local));
  world.a.keeps = world.b.keeps = false;
  world.connect_unserved();
  world.a.serve();
  constexpr std::size_t kTotal = std::size_t{64} << 20;
  REQUIRE(world.b.link->grant(1, kTotal));  // but this end reads nothing
  Writer writer{*world.a.link, sequence, 1, kTotal};
  world.a.on_credit = [&](StreamId, std::size_t) { writer.go(); };
  writer.go();
  world.run_until([&] { return writer.taken > 0; });
  for (int i = 0; i < 100; ++i) world.loop->poll();
  REQUIRE(writer.taken < kTotal);
  CHECK(writer.most_queued <= kMostQueued);
  constexpr std::size_t kOvertaken = 200U << 10;
  std::size_t limit = writer.taken - kOvertaken;
  REQUIRE(world.a.link->send("urgent"));
  std::optional<std::size_t> before;
  world.b.on_frame = [&](std::string_view) { before = world.b.bulk_bytes[1]; };
  world.b.serve();
  world.run_until([&] { return !world.b.ended.empty(); });
  REQUIRE(before);
  CHECK(*before <= limit);
  CHECK(world.b.bulk_bytes[1] == kTotal);
  CHECK(writer.most_queued <= kMostQueued);
}

TEST_CASE("many streams both ways, each with little credit") {
  constexpr StreamId kStreams = 40;
  constexpr std::size_t kTotal = 150000;
  Sequence sequence;
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  std::vector<std::unique_ptr<Writer>> writers;
  for (End* end : {&world.a, &world.b}) {
    std::size_t first = writers.size();
    for (StreamId stream = 0; stream < kStreams; ++stream) {
      writers.push_back(std::make_unique<Writer>(Writer{*end->link, sequence, stream, kTotal}));
      REQUIRE(end->link->grant(stream, 1000 + stream));
    }
    end->regrants = 1;
    end->on_credit = [&writers, first](StreamId stream, std::size_t) { writers[first + stream]->go(); };
  }
  for (auto& writer : writers) writer->go();
  world.run_until([&] { return world.a.ended.size() == kStreams && world.b.ended.size() == kStreams; });
  for (End* end : {&world.a, &world.b}) {
    for (StreamId stream = 0; stream < kStreams; ++stream) {
      std::string& got = end->bulk[stream];
      REQUIRE(got.size() == kTotal);
      std::size_t wrong = 0;
      for (std::size_t at = 0; at < kTotal; at += kPiece) {
        wrong += !sequence.is_at(at, std::string_view(got).substr(at, kPiece));
      }
      CHECK(wrong == 0);
    }
  }
  world.a.link->finish();
  world.run_until([&] { return world.a.closed == 1 && world.b.closed == 1; });
  CHECK_FALSE(world.a.why);
  CHECK_FALSE(world.b.why);
}

TEST_CASE("who has finished still grants credit to the other") {
  constexpr std::size_t kTotal = 3000000;
  Sequence sequence;
  World world(GENERATE(Over::tcp, Over::local));
  world.b.keeps = false;
  world.a.finishes_itself = false;
  world.connect();
  world.b.regrants = 1;
  REQUIRE(world.b.link->grant(1, 5000));
  world.b.link->finish();
  Writer writer{*world.a.link, sequence, 1, kTotal};
  world.a.on_credit = [&](StreamId, std::size_t) { writer.go(); };
  world.run_until([&] { return world.a.finished == 1; });
  writer.go();
  world.run_until([&] { return !world.b.ended.empty(); });
  CHECK(world.b.bulk_bytes[1] == kTotal);
  world.a.link->finish();
  world.run_until([&] { return world.a.closed == 1 && world.b.closed == 1; });
  CHECK_FALSE(world.a.why);
  CHECK_FALSE(world.b.why);
}

TEST_CASE("a writer without credit is told of it once, when it has asked") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  CHECK(world.a.link->write(1, "x") == 0);
  CHECK(world.a.link->write(1, "x") == 0);
  REQUIRE(world.b.link->grant(2, 10));
  REQUIRE(world.b.link->grant(1, 10));
  world.run_until([&] { return !world.a.credited.empty(); });
  REQUIRE(world.b.link->send("a turn"));
  world.run_until([&] { return world.a.frame_count == 1; });
  CHECK(world.a.credited == std::vector<StreamId>{1});
  CHECK(world.a.link->write(2, "0123456789abc") == 10);
  CHECK(world.a.link->write(1, "y") == 1);
  world.run_until([&] { return world.b.bulk[1] == "y"; });
  CHECK(world.b.bulk[2] == "0123456789");
}

// A connection that is cut after any number of bytes: the owner of a link is told of its end once, and of nothing
// after that; before, it was told what the other end has sent, in order.

namespace {

// A relay between a dialler and the world's listener. Carries bytes, and cuts both connections when one direction
// has carried that many.
class Relay {
 public:
  Relay(const World& world, std::size_t cut_up, std::size_t cut_down) : world_(world), left_{cut_up, cut_down} {
    listens_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SocketAddress any = SocketAddress::from_numbers("127.0.0.1", 0).value();
    REQUIRE(::bind(listens_.get(), any.raw(), any.size()) == 0);
    REQUIRE(::listen(listens_.get(), 5) == 0);
    accept_ = event::Poll::create(*world.loop, listens_.get(), [this](int) { accept(); }).value();
    REQUIRE(accept_->start(event::Poll::kReadable));
  }
  [[nodiscard]] Address address() const {
    return {"127.0.0.1", SocketAddress::local_of(listens_.get()).port(), ""};
  }
  [[nodiscard]] std::size_t carried(int direction) const { return carried_[direction]; }

 private:
  void accept() {
    accept_.reset();
    ends_[0] = UniqueFd(::accept4(listens_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ends_[1] = world_.raw_client();
    for (int from : {0, 1}) {
      polls_[from] =
          event::Poll::create(*world_.loop, ends_[from].get(), [this, from](int) { carry(from); }).value();
      REQUIRE(polls_[from]->start(event::Poll::kReadable));
      if (left_[from] == 0) return cut();
    }
  }
  void carry(int from) {
    char buffer[4096];
    ssize_t size = ::recv(ends_[from].get(), buffer, std::min(sizeof buffer, left_[from]), MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {  // an end of file is passed on
      polls_[from]->stop();
      ::shutdown(ends_[1 - from].get(), SHUT_WR);
      return;
    }
    std::size_t sent = 0;
    while (sent < static_cast<std::size_t>(size)) {
      ssize_t more =
          ::send(ends_[1 - from].get(), buffer + sent, static_cast<std::size_t>(size) - sent, MSG_NOSIGNAL);
      if (more < 0 && errno == EAGAIN) continue;  // libuv has made it non-blocking; little is sent here
      if (more < 0) return cut();
      sent += static_cast<std::size_t>(more);
    }
    carried_[from] += sent;
    left_[from] -= sent;
    if (left_[from] == 0) cut();
  }
  void cut() {
    for (int end : {0, 1}) {
      polls_[end].reset();
      ends_[end].reset();
    }
  }

  const World& world_;
  std::size_t left_[2];
  std::size_t carried_[2] = {0, 0};
  UniqueFd listens_;
  UniqueFd ends_[2];
  std::optional<event::Poll> accept_;
  std::optional<event::Poll> polls_[2];
};

constexpr std::size_t kWhole = SIZE_MAX;
const std::vector<std::string> kSaid = {"first", "", std::string(300, 'x'), "last"};

// Sends all it has, and finishes when the other end's stream is also over.
void talk(End& end) {
  auto finish_if_over = [&end] {
    bool has_written = !end.credited.empty();
    if (has_written && !end.ended.empty()) end.link->finish();
  };
  end.on_bulk = [finish_if_over](StreamId, std::string_view) { finish_if_over(); };
  end.on_credit = [&end, finish_if_over](StreamId stream, std::size_t) {
    CHECK(end.link->write(stream, std::string(100, 'b')) == 100);
    CHECK(end.link->end(stream));
    finish_if_over();
  };
  end.finishes_itself = false;
  end.serve();
  for (const std::string& each : kSaid) CHECK(end.link->send(each));
  CHECK(end.link->write(3, std::string(100, 'b')) == 0);
  CHECK(end.link->grant(3, 100));
}

struct Outcome {
  bool dialled = false;
  std::size_t up = 0;
  std::size_t down = 0;
};

void check_end(const End& end, bool is_whole) {
  CHECK(end.closed == 1);
  CHECK(end.after_closed == 0);
  CHECK(end.frames.size() <= kSaid.size());
  CHECK(std::equal(end.frames.begin(), end.frames.end(), kSaid.begin()));
  CHECK(end.finished <= 1);
  if (!is_whole) return;
  CHECK_FALSE(end.why);
  CHECK(end.frames.size() == kSaid.size());
  CHECK(end.finished == 1);
}

Outcome cut_after(World& world, std::size_t up, std::size_t down) {
  Outcome outcome;
  End a;
  End b;
  Relay relay(world, up, down);
  world.refused.clear();
  std::optional<std::string> failed;
  auto dialer = Dialer::create(*world.loop, *world.credentials, {relay.address()}, {}, [&](Result<OwnedLink> link) {
                  if (!link) {
                    failed = link.error().message;
                    return;
                  }
                  a.link = std::move(*link);
                  talk(a);
                }).value();
  bool is_whole = up == kWhole && down == kWhole;
  world.run_until([&] {
    if (!world.arrived.empty()) {
      b.link = std::move(world.arrived.front());
      world.arrived.clear();
      talk(b);
    }
    return (failed || a.closed > 0) && (!world.refused.empty() || b.closed > 0);
  });
  if (a.link) check_end(a, is_whole);
  if (b.link) check_end(b, is_whole);
  if (is_whole) CHECK((a.link && b.link));
  for (int i = 0; i < 3; ++i) world.loop->poll();
  CHECK(a.closed + b.closed + static_cast<int>(world.refused.size()) + (failed ? 1 : 0) == 2);
  CHECK(a.after_closed + b.after_closed == 0);
  outcome.up = relay.carried(0);
  outcome.down = relay.carried(1);
  return outcome;
}

}  // namespace

TEST_CASE("a connection that is cut at any byte is over once") {
  World world(Over::tcp);
  Outcome whole = cut_after(world, kWhole, kWhole);
  REQUIRE(whole.up > 700);
  REQUIRE(whole.down > 700);

  constexpr std::size_t kStep = kit::step(7);
  for (std::size_t at = 0; at <= whole.up; at += kStep) cut_after(world, at, kWhole);
  for (std::size_t at = 0; at <= whole.down; at += kStep) cut_after(world, kWhole, at);
}
