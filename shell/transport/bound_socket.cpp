// SPDX-License-Identifier: Apache-2.0
#include "transport/bound_socket.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "transport/address.hpp"

namespace nacre::transport {
namespace {

constexpr int kBacklog = 1024;  // the kernel has its own limit, net.core.somaxconn

// For all interfaces: IPv6, which takes IPv4 too, or IPv4 if there is no IPv6.
Result<UniqueFd> bound_socket(const std::string& host, std::uint16_t port) {
  std::optional<SocketAddress> given;
  if (!host.empty()) {
    given = SocketAddress::from_numbers(host, port);
    if (!given) return invalid(fmt::format("{}: a shell listens on a numeric address, or on all", host));
  }
  Error why = invalid("no address family");
  for (int family : {AF_INET6, AF_INET}) {
    if (given && given->family() != family) continue;
    SocketAddress address = given ? *given : SocketAddress::any(family, port);
    UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int on = 1;
    int off = 0;
    if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket && family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (socket && ::bind(socket.get(), address.raw(), address.size()) == 0) return socket;
    why = system_error(errno, fmt::format("cannot listen on {}", address.text()));
  }
  return why;
}

Result<void> check_directory(const std::string& path) {
  std::size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  struct stat status {};
  if (::lstat(directory.c_str(), &status) < 0) return system_error(errno, directory);
  if (!S_ISDIR(status.st_mode)) return Error{ENOTDIR, directory + ": is no directory, as the job's sockets need"};
  if (status.st_uid == ::geteuid() && (status.st_mode & 077) == 0) return {};
  return Error{EPERM,
               fmt::format("{}: belongs to user {} and has mode {:04o}; the directory of the job's sockets has "
                           "to be user {}'s, with mode 0700",
                           directory, status.st_uid, status.st_mode & 07777U, ::geteuid())};
}

Result<void> listen_on(const UniqueFd& socket) {
  if (::listen(socket.get(), kBacklog) < 0) return system_error(errno, "cannot listen");
  return {};
}

}  // namespace

Result<BoundSocket> BoundSocket::tcp(const std::string& host, std::uint16_t port) {
  UniqueFd socket = TRY(bound_socket(host, port));
  CHECK_OK(listen_on(socket));
  std::uint16_t given = SocketAddress::local_of(socket.get()).port();
  return BoundSocket(std::move(socket), given, "");
}

Result<BoundSocket> BoundSocket::local(const std::string& path) {
  CHECK_OK(check_directory(path));
  SocketAddress address = TRY(SocketAddress::from_path(path));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error(errno, "cannot make a Unix socket");
  if (::bind(socket.get(), address.raw(), address.size()) < 0) {
    if (errno == EADDRINUSE)
      return Error{EADDRINUSE, path + ": is there already; remove it if its shell has ended"};
    return system_error(errno, path);
  }
  BoundSocket out(std::move(socket), 0, path);
  CHECK_OK(listen_on(out.fd_));
  return out;
}

BoundSocket& BoundSocket::operator=(BoundSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(port_, other.port_);
  std::swap(path_, other.path_);
  return *this;
}

BoundSocket::~BoundSocket() {
  if (fd_ && !path_.empty()) ::unlink(path_.c_str());
}

}  // namespace nacre::transport
