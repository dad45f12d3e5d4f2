// SPDX-License-Identifier: Apache-2.0
//
// Bulk beside control frames, on real sockets.

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
