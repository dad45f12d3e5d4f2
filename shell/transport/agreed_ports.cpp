// SPDX-License-Identifier: Apache-2.0
#include "transport/agreed_ports.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace nacre::transport {
namespace {

// The first 8 bytes, highest first.
Result<std::uint64_t> derive(const Secret& secret, const std::string& purpose) {
  const std::string digits = TRY(secret.derive(purpose)).substr(0, 2 * sizeof(std::uint64_t));
  return std::stoull(digits, nullptr, 16);
}

}  // namespace

Result<std::vector<std::uint16_t>> agreed_ports(const Secret& secret, std::uint32_t rank) {
  constexpr std::uint64_t kCount = kLastAgreedPort - kFirstAgreedPort + 1;
  std::vector<std::uint16_t> ports;
  for (unsigned attempt = 0; ports.size() < kAgreedPorts; ++attempt) {
    std::uint64_t number = TRY(derive(secret, fmt::format("nacre port {} {}", rank, attempt)));
    auto port = static_cast<std::uint16_t>(kFirstAgreedPort + number % kCount);
    if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

Result<BoundSocket> bind_agreed(const std::vector<std::uint16_t>& ports) {
  std::string tried;
  for (std::uint16_t port : ports) {
    auto socket = BoundSocket::tcp("", port);
    if (socket || socket.error().code != EADDRINUSE) return socket;
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ", port);
  }
  return Error{EADDRINUSE,
               fmt::format("the ports that the job's secret gives this shell are all taken ({}); start the job "
                           "again with a new secret, or by `nacre launch` or PMI, which need no agreed ports",
                           tried)};
}

}  // namespace nacre::transport
