// SPDX-License-Identifier: Apache-2.0
//
// The ports on which shells listen if they cannot send each other a port before they are linked: each shell derives
// the same candidates from the job's secret, so that only those with the secret know them.
//
//   candidate n of a rank = 10000 + the first 8 bytes (highest first) of HMAC-SHA-256(secret, "nacre port RANK N"),
//   modulo 22768; a port that the rank already has is left out, and the next N is taken
//
// They are below the ports that kernels give to programs that ask for any port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "transport/bound_socket.hpp"
#include "transport/secret.hpp"

namespace nacre::transport {

inline constexpr std::size_t kAgreedPorts = 8;  // of each rank
inline constexpr std::uint16_t kFirstAgreedPort = 10000;
inline constexpr std::uint16_t kLastAgreedPort = 32767;

// Different ports, in the order in which to try them. An error: libssl cannot be loaded.
Result<std::vector<std::uint16_t>> agreed_ports(const Secret& secret, std::uint32_t rank);

// Listens on all interfaces, at the first of the ports that is free. EADDRINUSE: none is free.
Result<BoundSocket> bind_agreed(const std::vector<std::uint16_t>& ports);

}  // namespace nacre::transport
