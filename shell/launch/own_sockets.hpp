// SPDX-License-Identifier: Apache-2.0
//
// Where this shell will be dialled: bound and listening before anybody is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "group/membership.hpp"
#include "transport/bound_socket.hpp"
#include "transport/socket_directory.hpp"

namespace nacre::launch {

struct OwnSockets {
  static constexpr std::size_t kMaxText = 1024;     // bytes of `address`
  static constexpr std::size_t kMaxNumeric = 4;     // numeric addresses in it
  static constexpr std::size_t kMaxHostName = 253;  // a longer name is left out of it

  std::optional<transport::SocketDirectory> directory;  // to outlive the Unix socket
  std::vector<transport::BoundSocket> sockets;
  std::string address;  // "unix:PATH HOST:PORT 10.0.0.1:PORT [2001:db8::1]:PORT", the best first

  void move_to(group::Membership& membership);
};

// `parent`: of the Unix socket's directory; none: no Unix socket, as where each host has one shell. That it cannot be made is
// no error. `ports`: agreed ones, of which the first that is free is taken; empty: any port.
Result<OwnSockets> bind_own_sockets(const std::optional<std::string>& parent,
                                    const std::vector<std::uint16_t>& ports = {});

// For a job whose shells are all on this host: the Unix socket alone, without the costs of TLS; with the others if it cannot be
// made.
Result<OwnSockets> bind_local_sockets(const std::string& parent);

// The name of this host, as gethostname(2) gives it; "" if it has none that others could use.
[[nodiscard]] std::string own_host_name();

// Of the interfaces that are up, without loopback and link-local ones, at most `most`; where there are none, loopback.
[[nodiscard]] std::vector<std::string> numeric_addresses(std::size_t most = OwnSockets::kMaxNumeric);

}  // namespace nacre::launch
