// SPDX-License-Identifier: Apache-2.0
//
// Where a shell listens: HOST:PORT, [IPV6]:PORT, or unix:PATH.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nacre::transport {

struct Address {
  std::string host;  // a name or a numeric address; empty for a Unix socket
  std::uint16_t port = 0;
  std::string path;  // of a Unix socket

  static Result<Address> parse(std::string_view text);
  [[nodiscard]] bool is_unix() const { return host.empty(); }
  [[nodiscard]] std::string text() const;
};

// An address in the form that the kernel takes.
class SocketAddress {
 public:
  static Result<SocketAddress> from_path(const std::string& path);  // a Unix socket; its length is limited
  // None: `host` is a name, which a Resolver has to look up.
  static std::optional<SocketAddress> from_numbers(const std::string& host, std::uint16_t port);
  static SocketAddress any(int family, std::uint16_t port);  // all interfaces; AF_INET6 or AF_INET
  static SocketAddress from_raw(const sockaddr* address, socklen_t size);
  static SocketAddress local_of(int socket);
  static SocketAddress peer_of(int socket);

  void set_port(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const;  // 0 for a Unix socket
  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const { return size_; }
  [[nodiscard]] std::string text() const;  // in the form of an Address; IPv4 within IPv6 as IPv4

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

}  // namespace nacre::transport
