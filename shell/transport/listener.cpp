// SPDX-License-Identifier: Apache-2.0
#include "transport/listener.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "transport/address.hpp"

namespace nacre::transport {
namespace {

constexpr int kAcceptsInARow = 64;    // then other descriptors have their turn
constexpr event::Seconds kRest{0.1};  // after running out of descriptors

}  // namespace

Listener::Listener(event::Loop& loop, Credentials& credentials, BoundSocket socket, const Options& options,
                   Callbacks callbacks)
    : loop_(loop),
      credentials_(credentials),
      socket_(std::move(socket)),
      options_(options),
      callbacks_(std::move(callbacks)) {}

Result<std::unique_ptr<Listener>> Listener::create(event::Loop& loop, Credentials& credentials, BoundSocket socket,
                                                   const Options& options, Callbacks callbacks) {
  // If libssl is missing this fails once, here, and not for each connection.
  if (socket.path().empty()) static_cast<void>(TRY(credentials.tls()));
  std::unique_ptr<Listener> out(new Listener(loop, credentials, std::move(socket), options, std::move(callbacks)));
  Listener& self = *out;
  self.poll_ = TRY(event::Poll::create(loop, self.socket_.fd(), [&self](int) { self.accept_some(); }));
  self.timer_ =
      TRY(event::Timer::create(loop, [&self] { static_cast<void>(self.poll_->start(event::Poll::kReadable)); }));
  CHECK_OK(self.poll_->start(event::Poll::kReadable));
  return out;
}

void Listener::accept_some() {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    UniqueFd socket(::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      add(std::move(socket));
      continue;
    }
    if (errno == EAGAIN) return;
    bool is_full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    // The kernel reports this before it looks for a connection, and only the first accept of an event is known to
    // have one.
    if (is_full && i > 0) return;
    if (is_full && pending_.empty()) return rest(errno);
    if (is_full) drop_oldest("dropped before it proved to be of this job: no descriptors are left");
    // Other errors are about the connection, which has gone.
  }
}

void Listener::add(UniqueFd socket) {
  SocketAddress address = SocketAddress::peer_of(socket.get());
  std::string peer = socket_.path().empty() ? address.text() : fmt::format("a client of unix:{}", socket_.path());
  auto place = pending_.emplace(pending_.end());
  auto done = [this, place](Result<OwnedLink> link) {
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
  refuse(system_error(code, "cannot accept a connection"));
}

void Listener::refuse(const Error& why) const {
  if (callbacks_.on_refused) callbacks_.on_refused(why);
}

}  // namespace nacre::transport
