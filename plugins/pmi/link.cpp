// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/link.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "base/heap_buffer.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kLinkRead = std::size_t{16} << 10;

}  // namespace

Result<UniqueFd> PmiLink::open() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
    return system_error(errno, "cannot open a socket pair for PMI");
  }
  ours_ = UniqueFd(pair[0]);
  return UniqueFd(pair[1]);
}

Result<void> PmiLink::watch(event::Loop& loop, Received received) {
  received_ = std::move(received);
  poll_ = TRY(event::Poll::create(loop, ours_.get(), [this](int events) { ready(events); }));
  poll_->keeps_running(false);
  return poll_->start(event::Poll::kReadable);
}

void PmiLink::ready(int events) {
  if ((events & event::Poll::kWritable) != 0) return flush();
  if (unsent_.empty()) read_some();
}

bool PmiLink::read_some() {
  HeapBuffer<kLinkRead> buffer;
  ssize_t size = ::recv(ours_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (size > 0) {
    received_({buffer.data(), static_cast<std::size_t>(size)});
    return static_cast<std::size_t>(size) == buffer.size();
  }
  close();
  received_({});
  return false;
}

void PmiLink::drain() {
  while (ours_ && poll_ && read_some()) {
  }
}

void PmiLink::drain_if_ended() {
  while (ours_ && poll_) {
    pollfd state{ours_.get(), POLLIN, 0};
    if (::poll(&state, 1, 0) <= 0 || (state.revents & POLLHUP) == 0) return;
    drain();
  }
}

void PmiLink::send_some(std::string& bytes) {
  ssize_t sent = ::send(ours_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return bytes.clear();
  if (sent > 0) bytes.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 && errno != EAGAIN && errno != EINTR) bytes.clear();  // the peer has gone; reading will find its end
}

void PmiLink::send(std::string& bytes) {
  if (!ours_) return bytes.clear();
  if (unsent_.empty()) send_some(bytes);
  if (bytes.empty()) return;
  unsent_ += bytes;
  bytes.clear();
  static_cast<void>(poll_->start(event::Poll::kWritable));
}

void PmiLink::flush() {
  send_some(unsent_);
  if (!unsent_.empty()) return;
  if (closing_) return close();
  static_cast<void>(poll_->start(event::Poll::kReadable));
}

void PmiLink::close_when_sent() {
  closing_ = true;
  if (unsent_.empty()) close();
}

void PmiLink::close() {
  poll_.reset();
  ours_.reset();
  unsent_.clear();
}

}  // namespace nacre::plugins
