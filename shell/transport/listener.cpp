// SPDX-License-Identifier: Apache-2.0
#include "transport/listener.hpp"

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

constexpr int kBacklog = 1024;        // the kernel has its own limit, net.core.somaxconn
constexpr int kAcceptsInARow = 64;    // then others have their turn
constexpr event::Seconds kRest{0.1};  // without descriptors

// For all interfaces: IPv6, which takes IPv4 too, or where there is none IPv4.
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

}  // namespace

Listener::Listener(event::Loop& loop, Credentials& credentials, const Options& options, Callbacks callbacks)
    : loop_(loop), credentials_(credentials), options_(options), callbacks_(std::move(callbacks)) {}

Listener::~Listener() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<std::unique_ptr<Listener>> Listener::tcp(event::Loop& loop, Credentials& credentials,
                                                const std::string& host, std::uint16_t port, const Options& options,
                                                Callbacks callbacks) {
  static_cast<void>(TRY(credentials.tls()));  // what is missing is told here, not to each who comes
  std::unique_ptr<Listener> listener(new Listener(loop, credentials, options, std::move(callbacks)));
  CHECK_OK(listener->listen(TRY(bound_socket(host, port))));
  listener->port_ = SocketAddress::local_of(listener->socket_.get()).port();
  return listener;
}

Result<std::unique_ptr<Listener>> Listener::local(event::Loop& loop, Credentials& credentials,
                                                  const std::string& path, const Options& options,
                                                  Callbacks callbacks) {
  CHECK_OK(check_directory(path));
  SocketAddress address = TRY(SocketAddress::from_path(path));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error(errno, "cannot make a Unix socket");
  if (::bind(socket.get(), address.raw(), address.size()) < 0) {
    if (errno == EADDRINUSE)
      return Error{EADDRINUSE, path + ": is there already; remove it if its shell has ended"};
    return system_error(errno, path);
  }
  std::unique_ptr<Listener> listener(new Listener(loop, credentials, options, std::move(callbacks)));
  listener->path_ = path;
  CHECK_OK(listener->listen(std::move(socket)));
  return listener;
}

Result<void> Listener::listen(UniqueFd socket) {
  socket_ = std::move(socket);
  if (::listen(socket_.get(), kBacklog) < 0) return system_error(errno, "cannot listen");
  poll_ = TRY(event::Poll::create(loop_, socket_.get(), [this](int) { accept_some(); }));
  timer_ = TRY(event::Timer::create(loop_, [this] { static_cast<void>(poll_->start(event::Poll::kReadable)); }));
  return poll_->start(event::Poll::kReadable);
}

void Listener::accept_some() {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      add(std::move(socket));
      continue;
    }
    if (errno == EAGAIN) return;
    bool is_full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    // Said before the kernel looks whether anybody is there, which only this event's first one is known to be.
    if (is_full && i > 0) return;
    if (is_full && pending_.empty()) return rest(errno);
    if (is_full) drop_oldest("dropped before it proved to be of this job: no descriptors are left");
    // Others are of the connection, which has gone.
  }
}

void Listener::add(UniqueFd socket) {
  SocketAddress address = SocketAddress::peer_of(socket.get());
  std::string peer = path_.empty() ? address.text() : fmt::format("a client of unix:{}", path_);
  auto place = pending_.emplace(pending_.end());
  auto done = [this, place](Result<std::unique_ptr<Link>> link) {
    std::unique_ptr<Handshake> over = std::move(*place);  // it is in its own callback
    pending_.erase(place);
    if (!link) return refuse(link.error());
    callbacks_.on_link(std::move(*link));
  };
  auto handshake = Handshake::create(loop_, std::move(socket), std::move(peer), Role::listens, credentials_,
                                     options_.handshake, options_.link, std::move(done));
  if (!handshake) {
    pending_.erase(place);
    return refuse(handshake.error());
  }
  *place = std::move(*handshake);
  if (pending_.size() > options_.max_pending) {
    drop_oldest("dropped, as too many others came before it proved to be of this job");
  }
}

void Listener::drop_oldest(const char* why) {
  std::unique_ptr<Handshake> oldest = std::move(pending_.front());
  pending_.pop_front();
  refuse(Error{EACCES, fmt::format("{}: {}", oldest->peer(), why)});
}

void Listener::rest(int code) {
  poll_->stop();
  timer_->start(kRest);
  refuse(system_error(code, "cannot accept connections for a while (see RLIMIT_NOFILE)"));
}

void Listener::refuse(const Error& why) const {
  if (callbacks_.on_refused) callbacks_.on_refused(why);
}

}  // namespace nacre::transport
