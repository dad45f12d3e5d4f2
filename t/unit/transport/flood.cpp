// SPDX-License-Identifier: Apache-2.0
//
// Ten thousand connections that are not from shells of this job, while two shells of the job go on talking.
#include <sys/resource.h>
#include <sys/socket.h>

#include "allocated_bytes.hpp"
#include "fewer.hpp"
#include "world.hpp"
#include "wrong_clients.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace {

// Connects, sends something wrong or nothing, and ends in one of several ways.
class Flood {
 public:
  explicit Flood(const World& world) : world_(world), words_(wrong_words(world.over == Over::local)) {}

  void add(std::size_t number) {
    UniqueFd socket = world_.raw_client();
    const std::string& words = words_[number % words_.size()];
    std::size_t size = number % 5 == 4 ? words.size() / 2 : words.size();
    if (number % 7 != 6) static_cast<void>(::send(socket.get(), words.data(), size, MSG_DONTWAIT | MSG_NOSIGNAL));
    if (number % 3 == 0) {  // without a proper end
      linger hard{1, 0};
      ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    if (number % 11 == 10) return;  // at once
    alive_.push_back(std::move(socket));
    if (alive_.size() > kAlive) alive_.pop_front();
  }
  void end() { alive_.clear(); }

 private:
  static constexpr std::size_t kAlive = 150;
  const World& world_;
  std::vector<std::string> words_;
  std::deque<UniqueFd> alive_;
};

}  // namespace

TEST_CASE("very many wrong clients neither reach a link nor disturb one, and leave nothing behind") {
  World world(GENERATE(Over::tcp, Over::local));
  world.connect();
  // Each end answers the other with the next number.
  auto answer = [](End& end) {
    return [&end](std::string_view frame) {
      REQUIRE(end.link->send(std::to_string(std::stoull(std::string(frame)) + 1)));
    };
  };
  world.a.keeps = world.b.keeps = false;
  std::uint64_t last = 0;
  world.a.on_frame = [&, reply = answer(world.a)](std::string_view frame) {
    last = std::stoull(std::string(frame));
    reply(frame);
  };
  world.b.on_frame = answer(world.b);
  REQUIRE(world.a.link->send("0"));

  constexpr std::size_t kClients = kit::fewer<std::size_t>(10000, 4);
  constexpr std::size_t kFirst = 1000;  // after which everything has its usual size
  Flood flood(world);
  std::size_t descriptors = 0;
  std::size_t memory = 0;
  std::size_t most_pending = 0;
  std::size_t refusals = 0;
  auto settle = [&] {
    flood.end();
    world.run_until([&] { return world.listener->pending() == 0; });
    refusals += std::exchange(world.refused, {}).size();
  };
  for (std::size_t i = 0; i < kClients; ++i) {
    if (i == kFirst) {
      settle();
      descriptors = open_descriptors();
      memory = kit::allocated_bytes();
    }
    std::size_t before = world.a.frame_count;
    flood.add(i);
    world.run_until([&] { return world.a.frame_count > before; });  // the link goes on
    most_pending = std::max(most_pending, world.listener->pending());
    refusals += std::exchange(world.refused, {}).size();
  }
  // Connections that are not yet accepted are still in the kernel's queue.
  settle();
  world.run_until([&] {
    settle();
    return refusals >= kClients;
  });
  CHECK(refusals == kClients);
  CHECK(world.arrived.empty());
  CHECK(most_pending <= world.options.max_pending);
  CHECK(open_descriptors() == descriptors);
  CHECK(kit::allocated_bytes() < memory + 300000);
  CHECK(last >= kClients);
  CHECK(last == 2 * world.a.frame_count - 1);  // every one arrived, and nothing else
  CHECK(world.a.closed + world.b.closed == 0);
  world.a.link->finish();
}
