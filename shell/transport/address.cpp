// SPDX-License-Identifier: Apache-2.0
#include "transport/address.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::transport {
namespace {

constexpr std::string_view kUnix = "unix:";

Error not_an_address(std::string_view text) {
  return invalid(fmt::format("expected HOST:PORT, [IPV6]:PORT or unix:PATH, got {}", in_quotes(text)));
}

sockaddr_in& as_in4(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in&>(storage); }
const sockaddr_in& as_in4(const sockaddr_storage& storage) { return reinterpret_cast<const sockaddr_in&>(storage); }
sockaddr_in6& as_in6(sockaddr_storage& storage) { return reinterpret_cast<sockaddr_in6&>(storage); }
const sockaddr_in6& as_in6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

std::string in6_text(const sockaddr_in6& address) {
  char buffer[INET6_ADDRSTRLEN] = "";
  std::uint16_t port = ntohs(address.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    ::inet_ntop(AF_INET, &address.sin6_addr.s6_addr[12], buffer, sizeof buffer);
    return fmt::format("{}:{}", buffer, port);
  }
  ::inet_ntop(AF_INET6, &address.sin6_addr, buffer, sizeof buffer);
  if (address.sin6_scope_id != 0) return fmt::format("[{}%{}]:{}", buffer, address.sin6_scope_id, port);
  return fmt::format("[{}]:{}", buffer, port);
}

}  // namespace

// ---- Address -------------------------------------------------------------------

Result<Address> Address::parse(std::string_view text) {
  Address address;
  if (text.starts_with(kUnix)) {
    address.path = text.substr(kUnix.size());
    if (address.path.empty()) return not_an_address(text);
    return address;
  }
  std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return not_an_address(text);
  std::string_view host = text.substr(0, colon);
  bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  auto port = parse_u64(text.substr(colon + 1));
  bool is_bare = !in_brackets && host.find_first_of(":[]") != std::string_view::npos;
  if (host.empty() || is_bare || !port || *port == 0 || *port > std::numeric_limits<std::uint16_t>::max()) {
    return not_an_address(text);
  }
  address.host = host;
  address.port = static_cast<std::uint16_t>(*port);
  return address;
}

std::string Address::text() const {
  if (is_unix()) return fmt::format("{}{}", kUnix, path);
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

// ---- SocketAddress ---------------------------------------------------------------

Result<SocketAddress> SocketAddress::from_path(const std::string& path) {
  SocketAddress out;
  auto& address = reinterpret_cast<sockaddr_un&>(out.storage_);
  if (path.size() >= sizeof address.sun_path) {
    return Error{ENAMETOOLONG, fmt::format("{}{}: {} bytes; the path of a socket has at most {}: use a shorter "
                                           "directory",
                                           kUnix, path, path.size(), sizeof address.sun_path - 1)};
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  out.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return out;
}

std::optional<SocketAddress> SocketAddress::from_numbers(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  SocketAddress out = from_raw(found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  out.set_port(port);
  return out;
}

SocketAddress SocketAddress::any(int family, std::uint16_t port) {
  SocketAddress out;
  out.storage_.ss_family = static_cast<sa_family_t>(family);
  out.size_ = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);  // all zeros means any address
  out.set_port(port);
  return out;
}

SocketAddress SocketAddress::from_raw(const sockaddr* address, socklen_t size) {
  SocketAddress out;
  out.size_ = std::min<socklen_t>(size, sizeof out.storage_);
  std::memcpy(&out.storage_, address, out.size_);
  return out;
}

SocketAddress SocketAddress::local_of(int socket) {
  SocketAddress out;
  out.size_ = sizeof out.storage_;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&out.storage_), &out.size_) < 0) out.size_ = 0;
  return out;
}

SocketAddress SocketAddress::peer_of(int socket) {
  SocketAddress out;
  out.size_ = sizeof out.storage_;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&out.storage_), &out.size_) < 0) out.size_ = 0;
  return out;
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET) as_in4(storage_).sin_port = htons(port);
  if (family() == AF_INET6) as_in6(storage_).sin6_port = htons(port);
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(as_in4(storage_).sin_port);
  if (family() == AF_INET6) return ntohs(as_in6(storage_).sin6_port);
  return 0;
}

std::string SocketAddress::text() const {
  if (size_ == 0) return "a peer that has gone";
  if (family() == AF_INET6) return in6_text(as_in6(storage_));
  if (family() == AF_INET) {
    char buffer[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &as_in4(storage_).sin_addr, buffer, sizeof buffer);
    return fmt::format("{}:{}", buffer, port());
  }
  const auto& local = reinterpret_cast<const sockaddr_un&>(storage_);
  std::size_t most = size_ > offsetof(sockaddr_un, sun_path) ? size_ - offsetof(sockaddr_un, sun_path) : 0;
  return fmt::format("{}{}", kUnix, std::string_view(local.sun_path, ::strnlen(local.sun_path, most)));
}

}  // namespace nacre::transport
