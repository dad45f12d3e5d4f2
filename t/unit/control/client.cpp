// SPDX-License-Identifier: Apache-2.0
//
// The client that does not wait. This test is the other end of its link.
#include "control/client.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include "catch.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::control;  // NOLINT

namespace {

struct Leader {
  Leader() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    own = UniqueFd(ends[0]);
    UniqueFd theirs(ends[1]);
    send(line_of(ControlHello{"1"}));
    UniqueFd duplicate(::dup(theirs.get()));
    client.emplace(Client::over(std::move(theirs), std::move(duplicate), "1", event::Seconds(5)).value());
    received();  // the hello
  }
  // The next frame that the client takes.
  Result<std::optional<FromLeader>> taken() {
    Result<void> alive = client->exchange();
    auto frame = client->take();
    if (!alive && frame && !*frame) return std::move(alive).error();
    return frame;
  }
  void send(const std::string& text) {
    REQUIRE(::write(own.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  std::string received() {
    std::array<char, 4096> buffer{};
    ssize_t got = ::read(own.get(), buffer.data(), buffer.size());
    REQUIRE(got > 0);
    return {buffer.data(), static_cast<std::size_t>(got)};
  }

  UniqueFd own;
  std::optional<Client> client;
};

}  // namespace

TEST_CASE("a client that does not wait takes what has come, in order") {
  Leader leader;
  Client& client = *leader.client;
  CHECK(!leader.taken().value());
  std::uint64_t first = client.begin("status");
  std::uint64_t second = client.begin("ps");
  CHECK(first != second);
  REQUIRE(client.exchange());
  CHECK(leader.received().find("\"do\":\"ps\"") != std::string::npos);
  CHECK(!leader.taken().value());

  std::string answer = line_of(Answer{second, Json{{"tasks", 1}}});
  leader.send(answer.substr(0, 5));
  CHECK(!leader.taken().value());
  leader.send(answer.substr(5) + line_of(ControlEvent{1.5, "end", {{"code", 3}}}) +
              line_of(Answer{first, Json(), Error{EBUSY, "busy"}}));
  auto got = leader.taken().value();
  REQUIRE(got);
  CHECK(std::get<Answer>(*got).id == second);
  CHECK(std::get<Answer>(*got).value == Json{{"tasks", 1}});
  got = leader.taken().value();
  REQUIRE(got);
  CHECK(std::get<ControlEvent>(*got).name == "end");
  got = leader.taken().value();
  REQUIRE(got);
  CHECK(std::get<Answer>(*got).error->code == EBUSY);
  CHECK(!leader.taken().value());

  leader.own.reset();
  CHECK(leader.taken().error().code == ECONNRESET);
}

TEST_CASE("a client that waited for an answer has not lost the event before it") {
  Leader leader;
  leader.send(line_of(ControlEvent{1, "exits", Json::object()}) + line_of(Answer{1, Json(7)}));
  CHECK(leader.client->ask("status").value() == 7);
  auto got = leader.taken().value();
  REQUIRE(got);
  CHECK(std::get<ControlEvent>(*got).name == "exits");
}

TEST_CASE("what is no frame ends it") {
  Leader leader;
  leader.send("nonsense\n");
  CHECK(leader.taken().error().code == EINVAL);
}
