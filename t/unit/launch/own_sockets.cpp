// SPDX-License-Identifier: Apache-2.0
#include "launch/own_sockets.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/text.hpp"
#include "folder.hpp"
#include "transport/address.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::kit;     // NOLINT
using namespace nacre::launch;  // NOLINT

namespace {

bool can_connect(const transport::SocketAddress& address) {
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return socket && ::connect(socket.get(), address.raw(), address.size()) == 0;
}

}  // namespace

TEST_CASE("own sockets can be dialled at every address that is told, before anybody accepts") {
  TemporaryFolder folder;
  OwnSockets own = bind_own_sockets(folder.path("")).value();
  REQUIRE(own.sockets.size() == 2);
  CHECK(own.address.size() <= OwnSockets::kMaxText);
  std::size_t dialled = 0;
  for (std::string_view text : split(own.address, ' ')) {
    auto address = transport::Address::parse(text);
    REQUIRE(address);
    if (address->is_unix()) {
      CHECK(text == own.address.substr(0, text.size()));
      CHECK(address->path.starts_with(folder.path("")));
      CHECK(can_connect(transport::SocketAddress::from_path(address->path).value()));
      ++dialled;
      continue;
    }
    CHECK(address->port == own.sockets[1].port());
    auto numbers = transport::SocketAddress::from_numbers(address->host, address->port);
    if (!numbers) {
      CHECK(address->host == own_host_name());
      continue;
    }
    CHECK(can_connect(*numbers));
    ++dialled;
  }
  CHECK(dialled >= 2);
}

TEST_CASE("without a place for it there is no Unix socket, and that is no error") {
  OwnSockets own = bind_own_sockets(std::nullopt).value();
  CHECK(own.sockets.size() == 1);
  CHECK_FALSE(own.directory);
  CHECK(own.address.find("unix:") == std::string::npos);
}

TEST_CASE("without the host's name there are numbers only") {
  OwnSockets own = bind_own_sockets(std::nullopt, {}, HostNames::none).value();
  for (std::string_view each : split(own.address, ' ')) {
    auto address = transport::Address::parse(each).value();
    CHECK(transport::SocketAddress::from_numbers(address.host, address.port));
  }
}

TEST_CASE("where all are on this host there is the Unix socket alone") {
  TemporaryFolder folder;
  OwnSockets own = bind_local_sockets(folder.path("")).value();
  REQUIRE(own.sockets.size() == 1);
  CHECK(own.address == "unix:" + own.sockets[0].path());
}

TEST_CASE("numeric addresses are a bounded number, at least one") {
  CHECK(numeric_addresses(1).size() == 1);
  std::vector<std::string> all = numeric_addresses();
  CHECK_FALSE(all.empty());
  CHECK(all.size() <= OwnSockets::kMaxNumeric);
  for (const std::string& each : all) CHECK(transport::SocketAddress::from_numbers(each, 1));
}
