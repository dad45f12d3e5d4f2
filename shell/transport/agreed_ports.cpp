// SPDX-License-Identifier: Apache-2.0
#include "transport/agreed_ports.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "transport/openssl.hpp"

namespace nacre::transport {
namespace {

constexpr std::size_t kDigest = 32;  // bytes of SHA-256

Result<std::uint64_t> derive(const OpenSsl& ssl, const Secret& secret, const std::string& what) {
  std::array<unsigned char, kDigest> digest{};
  unsigned int size = kDigest;
  const auto* bytes = reinterpret_cast<const unsigned char*>(what.data());
  if (ssl.HMAC(ssl.EVP_sha256(), secret.bytes().data(), Secret::kSize, bytes, what.size(), digest.data(), &size) ==
      nullptr) {
    return invalid("libcrypto.so.3 cannot make an HMAC");
  }
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < sizeof out; ++i) out = out << 8 | digest[i];
  return out;
}

}  // namespace

Result<std::vector<std::uint16_t>> agreed_ports(const Secret& secret, std::uint32_t rank) {
  constexpr std::uint64_t kCount = kLastAgreedPort - kFirstAgreedPort + 1;
  OpenSsl ssl = TRY(OpenSsl::load());
  std::vector<std::uint16_t> ports;
  for (unsigned attempt = 0; ports.size() < kAgreedPorts; ++attempt) {
    std::uint64_t number = TRY(derive(ssl, secret, fmt::format("nacre port {} {}", rank, attempt)));
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
