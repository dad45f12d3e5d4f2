// SPDX-License-Identifier: Apache-2.0
//
// Where a shell listens: HOST:PORT, [IPV6]:PORT, or unix:PATH.
#pragma once

#include <sys/socket.h>

#include "base/owned_directory.hpp"
#include "transport/secret.hpp"

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

// A socket on which other shells of the job can already connect, although nothing answers them until a Listener has
// it. So a shell can publish its address before it knows the job's secret.
class BoundSocket {
 public:
  // On a numeric address or, if `host` is "", on all of them, IPv6 and IPv4 if the host has both. Port 0: any port.
  static Result<BoundSocket> tcp(const std::string& host, std::uint16_t port);
  // Makes the socket `path`, in a directory of this user that no other user may enter (mode 0700).
  static Result<BoundSocket> local(const std::string& path);

  BoundSocket(BoundSocket&&) noexcept = default;
  BoundSocket& operator=(BoundSocket&& other) noexcept;
  ~BoundSocket();  // removes a Unix socket's path

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] std::uint16_t port() const { return port_; }       // 0 for a Unix socket
  [[nodiscard]] const std::string& path() const { return path_; }  // "" for TCP

 private:
  BoundSocket(UniqueFd fd, std::uint16_t port, std::string path)
      : fd_(std::move(fd)), port_(port), path_(std::move(path)) {}

  UniqueFd fd_;
  std::uint16_t port_;
  std::string path_;
};

// The directory of a shell's Unix socket, which no other user may enter. Its name has the host that made it, as a
// Unix socket is of use only on its own host:
//
//   TMPDIR/nacre-HOST-XXXXXX/s      HOST: 16 hexadecimal digits: host_digits(), and eight digits of the id of its
//                                   boot
class SocketDirectory {
 public:
  // Makes it below `parent`; below /tmp if that fails, or if a socket's path would be too long or hold a blank.
  static Result<SocketDirectory> create(const std::string& parent, const OwnedDirectory::Announce& announce = {});

  SocketDirectory(SocketDirectory&& other) noexcept : directory_(std::exchange(other.directory_, {})) {}
  SocketDirectory& operator=(SocketDirectory&& other) noexcept {
    std::swap(directory_, other.directory_);
    return *this;
  }
  ~SocketDirectory();  // removes it, if it is empty

  [[nodiscard]] const std::string& path() const { return directory_.path(); }
  [[nodiscard]] std::string socket() const { return path() + "/s"; }

 private:
  explicit SocketDirectory(OwnedDirectory directory) : directory_(std::move(directory)) {}
  OwnedDirectory directory_;
};

// The HOST of this host.
[[nodiscard]] std::string host_mark();

// Of these addresses, which are joined by blanks, those that a shell on the host `mark` can dial: without the Unix
// sockets of other hosts.
[[nodiscard]] std::string usable_on(const std::string& mark, std::string_view addresses);

// The ports on which shells listen if they cannot send each other a port before they are linked: each shell derives
// the same candidates from the job's secret, so that only those with the secret know them.
//
//   candidate n of a rank = 10000 + the first 8 bytes (highest first) of HMAC-SHA-256(secret, "nacre port RANK N"),
//   modulo 22768; a port that the rank already has is left out, and the next N is taken
//
// They are below the ports that kernels give to programs that ask for any port.

inline constexpr std::size_t kAgreedPorts = 8;  // of each rank
inline constexpr std::uint16_t kFirstAgreedPort = 10000;
inline constexpr std::uint16_t kLastAgreedPort = 32767;

// Different ports, in the order in which to try them. An error: libssl cannot be loaded.
Result<std::vector<std::uint16_t>> agreed_ports(const Secret& secret, std::uint32_t rank);

// Listens on all interfaces, at the first of the ports that is free. EADDRINUSE: none is free.
Result<BoundSocket> bind_agreed(const std::vector<std::uint16_t>& ports);

}  // namespace nacre::transport
