// SPDX-License-Identifier: Apache-2.0
#include "transport/handshake.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "transport/address.hpp"

namespace nacre::transport {
namespace {

constexpr std::size_t kHandshakeRead = 4096;  // bytes of one recv(2)

Result<void> check_user(int socket, const std::string& peer) {
  ucred other{};
  socklen_t size = sizeof other;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) < 0) {
    return system_error(errno, peer + ": the kernel does not give its user");
  }
  if (other.uid == ::geteuid()) return {};
  return Error{EACCES, fmt::format("{}: belongs to user {}; only shells of user {} are of this job", peer,
                                   other.uid, ::geteuid())};
}

}  // namespace

Handshake::Handshake(event::Loop& loop, UniqueFd socket, std::string peer, Role role, Credentials& credentials,
                     const HandshakeLimits& limits, const LinkLimits& link_limits, Done done)
    : loop_(loop),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      role_(role),
      credentials_(credentials),
      limits_(limits),
      link_limits_(link_limits),
      done_(std::move(done)) {}

Result<std::unique_ptr<Handshake>> Handshake::create(event::Loop& loop, UniqueFd socket, std::string peer,
                                                     Role role, Credentials& credentials,
                                                     const HandshakeLimits& limits, const LinkLimits& link_limits,
                                                     Done done) {
  std::unique_ptr<Handshake> made(new Handshake(loop, std::move(socket), std::move(peer), role, credentials, limits,
                                                link_limits, std::move(done)));
  CHECK_OK(made->begin());
  return made;
}

Result<void> Handshake::begin() {
  is_unix_ = SocketAddress::local_of(socket_.get()).family() == AF_UNIX;
  if (is_unix_) {
    CHECK_OK(check_user(socket_.get(), peer_));
    out_ = credentials_.greeting();
  } else if (role_ == Role::dials) {
    CHECK_OK(in(peer_, begin_tls()));
    static_cast<void>(TRY(in(peer_, step_tls())));  // the first bytes are the dialler's
  }
  poll_ = TRY(event::Poll::create(loop_, socket_.get(), [this](int) { on_events(); }));
  timer_ = TRY(event::Timer::create(loop_, [this] {
    fail(Error{ETIMEDOUT,
               fmt::format("timed out: it has not proved to be of this job within {} s; is it a shell, and "
                           "does it run?",
                           limits_.time.count())});
  }));
  timer_->start_grace(limits_.time);
  return poll_->start(event::Poll::kReadable | (out_.empty() ? 0 : event::Poll::kWritable));
}

// A listener starts TLS only when the first bytes have come: silent connections cost no more than their socket.
Result<void> Handshake::begin_tls() {
  tls_ = TRY(Tls::create(*TRY(credentials_.tls()), role_));
  return {};
}

void Handshake::on_events() {
  Result<bool> done = proceed();
  if (!done) return fail(Error(done.error()));
  if (*done) return succeed();
  // An error of the socket is found when it is read.
  static_cast<void>(poll_->start(event::Poll::kReadable | (out_.empty() ? 0 : event::Poll::kWritable)));
}

Result<bool> Handshake::proceed() {
  CHECK_OK(send_some());
  std::array<char, kHandshakeRead> buffer;
  for (;;) {
    std::size_t most = std::min(buffer.size(), limits_.bytes - std::min(taken_, limits_.bytes));
    if (most == 0) {
      return Error{EACCES,
                   fmt::format("has sent {} bytes without proving to be of this job: is it a shell?", taken_)};
    }
    ssize_t size = ::recv(socket_.get(), buffer.data(), most, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return false;
    if (size < 0) return system_error(errno, "the connection broke before it proved to be of this job");
    if (size == 0) {
      return Error{ECONNRESET, "hung up before it proved to be of this job; see the messages of its own shell"};
    }
    taken_ += static_cast<std::size_t>(size);
    bool done = TRY(take({buffer.data(), static_cast<std::size_t>(size)}));
    if (done) return true;
  }
}

Result<bool> Handshake::take(std::string_view bytes) {
  if (is_unix_) {
    received_ += bytes;
    return credentials_.check_greeting(received_);
  }
  if (!tls_) CHECK_OK(begin_tls());
  tls_->receive(bytes);
  bool done = TRY(step_tls());
  CHECK_OK(send_some());
  return done;
}

Result<bool> Handshake::step_tls() {
  Result<bool> done = tls_->handshake();
  tls_->take_output(out_);  // also after a failure: it carries the reason to the other end
  return done;
}

Result<void> Handshake::send_some() {
  while (!out_.empty()) {
    ssize_t size = ::send(socket_.get(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return {};  // full, or gone; the next read finds out which
    out_.erase(0, static_cast<std::size_t>(size));
  }
  return {};
}

void Handshake::succeed() {
  poll_.reset();
  timer_.reset();
  if (is_unix_) received_.erase(0, credentials_.greeting().size());
  Result<OwnedLink> link = Link::create(
      loop_, {std::move(socket_), peer_, std::move(tls_), std::move(received_), std::move(out_)}, link_limits_);
  Done done = std::move(done_);
  done(std::move(link));
}

void Handshake::fail(Error why) {
  static_cast<void>(send_some());
  poll_.reset();
  timer_.reset();
  // If received bytes were left unread, close(2) would discard the reason that was just sent.
  std::array<char, kHandshakeRead> rest;
  ::shutdown(socket_.get(), SHUT_WR);
  for (int i = 0; i < 4 && ::recv(socket_.get(), rest.data(), rest.size(), MSG_DONTWAIT) > 0; ++i) {
  }
  socket_.reset();
  Result<OwnedLink> none = in(peer_, std::move(why));
  Done done = std::move(done_);
  done(std::move(none));
}

}  // namespace nacre::transport
