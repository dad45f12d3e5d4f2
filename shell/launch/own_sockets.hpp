// SPDX-License-Identifier: Apache-2.0
//
// Where others dial this shell: the sockets are bound and listening before their addresses are sent anywhere.
#pragma once

#include "group/directory.hpp"
#include "transport/address.hpp"

namespace nacre::launch {

struct OwnSockets {
  static constexpr std::size_t kMaxText = 1024;     // bytes of `address`
  static constexpr std::size_t kMaxNumeric = 4;     // numeric addresses in it
  static constexpr std::size_t kMaxHostName = 253;  // a longer name is left out

  std::optional<transport::SocketDirectory> directory;  // has to outlive the Unix socket
  std::vector<transport::BoundSocket> sockets;
  std::string address;  // "unix:PATH HOST:PORT 10.0.0.1:PORT [2001:db8::1]:PORT", the best first

  void move_to(group::Membership& membership);
};

// Whether the host's name is among a shell's addresses: those of pods are numbers, as no other pod knows the name.
enum class HostNames : std::uint8_t { first, none };

// `parent`: where the Unix socket's directory is made; if that fails there is no Unix socket. None: without a Unix
// socket, such as when each host has one shell. `ports`: agreed ports, of which the first free one is taken; empty:
// any port.
Result<OwnSockets> bind_own_sockets(const std::optional<std::string>& parent,
                                    const std::vector<std::uint16_t>& ports = {},
                                    HostNames names = HostNames::first);

// For a job whose shells are all on this host: only the Unix socket, without the costs of TLS. If it cannot be
// made, with the others.
Result<OwnSockets> bind_local_sockets(const std::string& parent);

// This host's name by gethostname(2); "" if it is of no use to others.
[[nodiscard]] std::string own_host_name();

// At most `most` addresses of interfaces that are up, without loopback and link-local ones; if there are none,
// loopback.
[[nodiscard]] std::vector<std::string> numeric_addresses(std::size_t most = OwnSockets::kMaxNumeric);

}  // namespace nacre::launch
