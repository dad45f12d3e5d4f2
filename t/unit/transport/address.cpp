// SPDX-License-Identifier: Apache-2.0
#include "transport/address.hpp"

#include <sys/stat.h>

#include <filesystem>

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

namespace {

using Ports = std::vector<std::uint16_t>;

// 00 01 02 ... 1f
Secret ascending() {
  std::string hex;
  for (int i = 0; i < 32; ++i) hex += fmt::format("{:02x}", i);
  return Secret::from_hex(hex).value();
}

}  // namespace

// Computed with Python's hmac and hashlib from the definition in the header.
TEST_CASE("agreed ports are those of the definition") {
  Secret secret = ascending();
  CHECK(agreed_ports(secret, 0).value() == Ports{27475, 23717, 19592, 22157, 19129, 12053, 25293, 24884});
  CHECK(agreed_ports(secret, 1).value() == Ports{20759, 25258, 23813, 30095, 16602, 26019, 13668, 30947});
  CHECK(agreed_ports(secret, 70000).value() == Ports{16939, 10243, 10248, 16826, 16538, 14772, 31733, 13387});
}

TEST_CASE("agreed ports are different ones, in their range, whatever the rank and the secret") {
  for (int i = 0; i < 3; ++i) {
    Secret secret = Secret::generate().value();
    for (std::uint32_t rank = 0; rank < 300; ++rank) {
      Ports ports = agreed_ports(secret, rank).value();
      CHECK(ports.size() == kAgreedPorts);
      CHECK(std::all_of(ports.begin(), ports.end(),
                        [](auto port) { return port >= kFirstAgreedPort && port <= kLastAgreedPort; }));
      std::sort(ports.begin(), ports.end());
      CHECK(std::adjacent_find(ports.begin(), ports.end()) == ports.end());
    }
  }
}

// Other processes of this machine may have some of the ports.
TEST_CASE("of agreed ports the first that is free is taken; when none is, the error says what to do") {
  Ports ports = agreed_ports(Secret::generate().value(), 0).value();
  std::vector<BoundSocket> taken;
  auto last = ports.begin();
  for (;;) {
    auto socket = bind_agreed(ports);
    if (!socket) {
      CHECK(socket.error().code == EADDRINUSE);
      CHECK(contains(socket.error().message, fmt::format("({}, {}", ports[0], ports[1])));
      CHECK(contains(socket.error().message, "start the job again with a new secret"));
      break;
    }
    auto place = std::find(ports.begin(), ports.end(), socket->port());
    REQUIRE(place != ports.end());
    CHECK((taken.empty() || place > last));
    last = place;
    taken.push_back(std::move(*socket));
  }
  CHECK_FALSE(taken.empty());
}

TEST_CASE("a socket's directory is the user's alone, named for its host, and goes with its owner") {
  kit::TemporaryFolder folder;
  std::string path;
  {
    auto directory = SocketDirectory::create(folder.path(""));
    REQUIRE(directory);
    path = directory->path();
    CHECK(path.starts_with(folder.path("") + "/nacre-" + host_mark() + "-"));
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0700);
    SocketDirectory moved = std::move(*directory);
    auto socket = BoundSocket::local(moved.socket());
    REQUIRE(socket);
    CHECK(std::filesystem::exists(moved.socket()));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("where a socket's path would be too long or have a blank, or nothing can be made, it is in /tmp") {
  kit::TemporaryFolder folder;
  std::string deep = folder.path(std::string(100, 'd'));
  std::string blank = folder.path("a b");
  for (const std::string& each : {deep, blank}) std::filesystem::create_directory(each);
  for (const std::string& each : {deep, blank, folder.path("none"), std::string("relative"), std::string()}) {
    auto directory = SocketDirectory::create(each);
    REQUIRE(directory);
    CHECK(directory->path().starts_with("/tmp/nacre-"));
    CHECK(BoundSocket::local(directory->socket()));
  }
}

TEST_CASE("Unix sockets of other hosts are left out of addresses") {
  std::string mark = host_mark();
  CHECK(mark.size() == 16);
  std::string own = "unix:/tmp/nacre-" + mark + "-abcdef/s";
  std::string other = "unix:/tmp/nacre-0123456789abcdef-abcdef/s";
  CHECK(usable_on(mark, own + " node1:70 10.0.0.1:70") == own + " node1:70 10.0.0.1:70");
  CHECK(usable_on(mark, other + " node1:70 [2001:db8::1]:70") == "node1:70 [2001:db8::1]:70");
  CHECK(usable_on("0123456789abcdef", other + "  " + own + " n:1") == other + " n:1");
  CHECK(usable_on(mark, other).empty());
  CHECK(usable_on(mark, "").empty());
  // Sockets with other names are left in the list, to be tried.
  for (const char* each : {"unix:/run/s", "unix:/tmp/nacre-x/s", "unix:s", "unix:/tmp/nacre-0123456789abcdef/s"}) {
    CHECK(usable_on(mark, each) == each);
  }
}
