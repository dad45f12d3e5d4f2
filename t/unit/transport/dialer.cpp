// SPDX-License-Identifier: Apache-2.0
#include "transport/dialer.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

namespace {

std::uint16_t closed_port() {
  auto loop = event::Loop::create().value();
  auto credentials = credentials_of();
  return Listener::create(*loop, *credentials, BoundSocket::tcp("127.0.0.1", 0).value(), {}, {}).value()->port();
}

}  // namespace

TEST_CASE("the first address that answers is taken") {
  World world;
  Result<OwnedLink> link = world.dial({{"127.0.0.1", closed_port(), ""},
                                       {"no such host!", 1, ""},
                                       {"", 0, world.folder.path("not-there")},
                                       {"localhost", world.listener->port(), ""},
                                       world.address()});
  INFO((link ? "" : link.error().message));
  REQUIRE(link);
  CHECK((*link)->peer().starts_with(fmt::format("localhost:{} (", world.listener->port())));
}

TEST_CASE("if none answers each is named with its reason") {
  World world;
  std::uint16_t port = closed_port();
  std::string path = world.folder.path("not-there");
  Result<OwnedLink> link = world.dial(
      {{"127.0.0.1", port, ""}, {"no such host!", 7, ""}, {"", 0, path}, {"", 0, std::string(200, 'x')}});
  REQUIRE_FALSE(link);
  const std::string& said = link.error().message;
  CHECK(
      said.starts_with(fmt::format("127.0.0.1:{}: Connection refused; no such host!:7: cannot find the address of "
                                   "host no such host!: ",
                                   port)));
  CHECK(contains(said, fmt::format("; unix:{}: No such file or directory; unix:xxx", path)));
  CHECK(contains(said, "use a shorter directory"));
  CHECK(world.dial(std::vector<Address>{}).error().message == "no address to connect to");
}

TEST_CASE("a dialler that is destroyed at any time calls nobody") {
  World world(GENERATE(Over::tcp, Over::local));
  Address to = GENERATE(0, 1) == 0 ? world.address() : Address{"localhost", world.listener->port(), ""};
  if (world.over == Over::local && !to.is_unix()) to = world.address();
  for (int turns = 0; turns < 12; ++turns) {
    auto dialer = Dialer::create(*world.loop, *world.credentials, {to}, {}, [&](const auto&) {
                    if (turns < 2) FAIL("called too early");
                  }).value();
    for (int i = 0; i < turns; ++i) world.loop->poll();
  }
  world.arrived.clear();
  world.connect();
  REQUIRE(world.a.link->send("hello"));
  world.run_until([&] { return world.b.frame_count == 1; });
}

TEST_CASE("a dialler may be destroyed by what it calls") {
  World world(GENERATE(Over::tcp, Over::local));
  bool good = GENERATE(true, false);
  std::vector<Address> addresses = {good ? world.address() : Address{"127.0.0.1", closed_port(), ""}};
  std::unique_ptr<Dialer> dialer;
  bool done = false;
  dialer = Dialer::create(*world.loop, *world.credentials, addresses, {}, [&](Result<OwnedLink> link) {
             dialer.reset();
             CHECK(link.has_value() == good);
             done = true;
           }).value();
  CHECK_FALSE(done);
  world.run_until([&] { return done; });
}

TEST_CASE("a listener on all interfaces, or on one") {
  World world;
  CHECK(world.listener->port() != 0);
  CHECK(world.dial({{"127.0.0.1", world.listener->port(), ""}}));
  auto only =
      Listener::create(*world.loop, *world.credentials, BoundSocket::tcp("127.0.0.1", 0).value(), {}, {}).value();
  Error taken = BoundSocket::tcp("127.0.0.1", only->port()).error();
  CHECK(taken.message == fmt::format("cannot listen on 127.0.0.1:{}: Address already in use", only->port()));
  Error named = BoundSocket::tcp("localhost", 0).error();
  CHECK(contains(named.message, "localhost: a shell listens on a numeric address"));
}

TEST_CASE("a Unix socket wants a directory that nobody else may enter") {
  World world(Over::local);
  std::string open = world.folder.path("open");
  REQUIRE(::mkdir(open.c_str(), 0700) == 0);
  REQUIRE(::chmod(open.c_str(), 0755) == 0);
  Error error = BoundSocket::local(open + "/s").error();
  CHECK(contains(error.message, open + ": belongs to user"));
  CHECK(contains(error.message, "mode 0755"));
  CHECK(contains(BoundSocket::local(world.folder.path("none/s")).error().message, "No such file or directory"));
  CHECK(contains(BoundSocket::local(world.folder.path("shell.0")).error().message, "is there already"));
  CHECK(contains(BoundSocket::local(world.folder.path("shell.0/s")).error().message, "is no directory"));
  REQUIRE(::symlink(open.c_str(), world.folder.path("link").c_str()) == 0);
  CHECK(contains(BoundSocket::local(world.folder.path("link/s")).error().message, "is no directory"));
  world.listener.reset();  // which removes the socket
  CHECK(BoundSocket::local(world.folder.path("shell.0")));
}
