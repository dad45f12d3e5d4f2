// SPDX-License-Identifier: Apache-2.0
//
// Where shells meet that cannot tell each other a port before they are linked: each of them derives the same candidates
// from the job's secret, so that nobody without it knows them.
//
//   candidate n of a rank = 10000 + the first 8 bytes (highest first) of HMAC-SHA-256(secret, "nacre port RANK N"),
//   modulo 22768; one that this rank has already is left out, and the next N is taken
//
// They are below the ports that kernels give to whoever asks for any.
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

// Different ones, in the order in which they are to be tried. An error: libssl cannot be loaded.
Result<std::vector<std::uint16_t>> agreed_ports(const Secret& secret, std::uint32_t rank);

// On all interfaces, at the first of the ports that is free. EADDRINUSE if none is.
Result<BoundSocket> bind_agreed(const std::vector<std::uint16_t>& ports);

}  // namespace nacre::transport
