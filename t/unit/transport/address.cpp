// SPDX-License-Identifier: Apache-2.0
#include "transport/address.hpp"

#include "transport/dialer.hpp"
#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

TEST_CASE("addresses as text, there and back") {
  auto text = GENERATE(as<std::string>(), "host:1", "node7.cluster:65535", "10.0.0.1:4242", "[::1]:80",
                       "[fe80::1%eth0]:9", "unix:/run/x", "unix:relative");
  Address address = Address::parse(text).value();
  CHECK(address.text() == text);
  CHECK(address.is_unix() == text.starts_with("unix:"));
}

TEST_CASE("what is no address is refused") {
  auto text = GENERATE(as<std::string>(), "", "host", ":1", "host:", "host:0", "host:65536", "host:-1", "host:x",
                       "::1:80", "[::1]", "unix:", "[]:5");
  CHECK(contains(Address::parse(text).error().message, "expected HOST:PORT, [IPV6]:PORT or unix:PATH, got "));
}

TEST_CASE("socket addresses") {
  CHECK(SocketAddress::from_numbers("127.0.0.1", 5)->text() == "127.0.0.1:5");
  CHECK(SocketAddress::from_numbers("::1", 5)->text() == "[::1]:5");
  CHECK(SocketAddress::from_numbers("::ffff:10.0.0.1", 5)->text() == "10.0.0.1:5");
  CHECK_FALSE(SocketAddress::from_numbers("localhost", 5));
  CHECK(SocketAddress::from_path("/run/x")->text() == "unix:/run/x");
  CHECK(SocketAddress::from_path(std::string(107, 'x')).has_value());
  Error error = SocketAddress::from_path(std::string(108, 'x')).error();
  CHECK(contains(error.message, "108 bytes; the path of a socket has at most 107: use a shorter directory"));
  CHECK(SocketAddress::peer_of(-1).text() == "a peer that has gone");
}

TEST_CASE("a name is looked up while the loop turns") {
  auto loop = event::Loop::create().value();
  std::optional<Result<std::vector<SocketAddress>>> answer;
  auto resolver =
      Resolver::create(*loop, "localhost", 77, [&](auto found) { answer.emplace(std::move(found)); }).value();
  CHECK_FALSE(answer);
  loop->run_until([&] { return answer.has_value(); });
  REQUIRE(*answer);
  REQUIRE_FALSE((*answer)->empty());
  CHECK((*answer)->front().port() == 77);
}

TEST_CASE("a name that is none") {
  auto loop = event::Loop::create().value();
  std::optional<Result<std::vector<SocketAddress>>> answer;
  auto resolver =
      Resolver::create(*loop, "no such host!", 77, [&](auto found) { answer.emplace(std::move(found)); }).value();
  loop->run_until([&] { return answer.has_value(); });
  REQUIRE_FALSE(*answer);
  CHECK(contains(answer->error().message, "cannot find the address of host no such host!: "));
}

TEST_CASE("a lookup that nobody wants any more is left alone") {
  auto loop = event::Loop::create().value();
  for (int i = 0; i < 20; ++i) {
    auto resolver = Resolver::create(*loop, "localhost", 1, [](const auto&) { FAIL("called"); }).value();
    if (i % 2 == 0) loop->update_now();
  }
  loop->run();  // nothing is left to wait for
}
