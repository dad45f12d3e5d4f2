// SPDX-License-Identifier: Apache-2.0
//
// A connection that is cut after any number of bytes: the owner of a link is told of its end once, and of nothing
// after that; before, it was told what the other end has sent, in order.
#include <sys/socket.h>

#include "fewer.hpp"
#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

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
