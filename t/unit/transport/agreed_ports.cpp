// SPDX-License-Identifier: Apache-2.0
#include "transport/address.hpp"

#include <algorithm>

#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

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

// Others of this machine may have some of them.
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
