// SPDX-License-Identifier: Apache-2.0
#include "task/stream.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.hpp"

namespace nacre::task {
namespace {

constexpr std::size_t kReadSize = std::size_t{64} << 10;  // bytes: a pipe's usual capacity

bool later(int code) { return code == EAGAIN || code == EINTR; }

// One read(2). Not into the string itself, which would first be cleared where it grows: 16 pages, and most reads
// give little. A function of its own, as whoever gets the bytes runs further down on the stack.
[[gnu::noinline]] ssize_t append_some(int fd, std::string& to, std::size_t most) {
  HeapBuffer<kReadSize> piece;
  ssize_t got = ::read(fd, piece.data(), std::min(piece.size(), most));
  if (got > 0) to.append(piece.data(), static_cast<std::size_t>(got));
  return got;
}

}  // namespace

Result<std::unique_ptr<BufferedStream>> BufferedStream::create(event::Loop& loop, UniqueFd fd, Options options,
                                                               Callbacks callbacks) {
  int number = fd.get();
  std::unique_ptr<BufferedStream> stream(new BufferedStream(std::move(fd), options, std::move(callbacks)));
  stream->at_end_ = !options.readable;
  stream->closing_ = !options.writable;
  auto on_events = [raw = stream.get()](int events) { raw->on_events(events); };
  stream->poll_ = TRY(event::Poll::create(loop, number, on_events));
  CHECK_OK(stream->watch());
  return stream;
}

// ---- reading -----------------------------------------------------------------

std::string_view BufferedStream::read(std::size_t most) { return take(std::min(most, unread())); }

std::string_view BufferedStream::read_line() {
  std::size_t newline = in_.find('\n', taken_);
  return newline == std::string::npos ? std::string_view() : take(newline + 1 - taken_);
}

std::string_view BufferedStream::get_line() {
  std::string_view line = read_line();
  bool rest = line.empty() && (at_end_ || unread() >= options_.buffer_size);
  return rest ? read() : line;
}

// The view stays valid until more bytes arrive.
std::string_view BufferedStream::take(std::size_t size) {
  std::string_view taken = std::string_view(in_).substr(taken_, size);
  taken_ += size;
  if (!delivering_) static_cast<void>(watch());
  return taken;
}

Result<void> BufferedStream::resume() {
  paused_ = false;
  return watch();
}

void BufferedStream::pause() {
  paused_ = true;
  static_cast<void>(watch());  // watching less cannot fail
}

bool BufferedStream::ready() const {
  if (unread() == 0 || paused_) return false;
  return !options_.by_line || at_end_ || unread() >= options_.buffer_size || has_line();
}

// Calls on_ready while something is read, so that a reader may take one line at a time.
void BufferedStream::deliver() {
  delivering_ = true;
  while (ready() && callbacks_.on_ready) {
    std::size_t before = unread();
    callbacks_.on_ready();
    if (unread() == before) break;
  }
  delivering_ = false;
}

void BufferedStream::fill() {
  in_.erase(0, taken_);
  taken_ = 0;
  std::size_t room = options_.buffer_size - std::min(in_.size(), options_.buffer_size);
  ssize_t got = append_some(fd_.get(), in_, room);
  if (got < 0 && later(errno)) return;
  if (got <= 0) return end_reading();
  deliver();
}

void BufferedStream::end_reading() {
  if (at_end_) return;
  at_end_ = true;
  paused_ = false;
  deliver();
  if (callbacks_.on_ready) callbacks_.on_ready();  // there is nothing to read: the end
}

// ---- writing -----------------------------------------------------------------

Result<void> BufferedStream::write(std::string_view bytes) {
  if (!options_.writable) return Error{EBADF, "this stream is not written to"};
  if (closing_) return Error{EPIPE, "this stream is closed"};
  if (bytes.size() > options_.buffer_size - out_.size()) return Error{ENOSPC, "the write buffer is full"};
  out_ += bytes;
  written_ += bytes.size();
  return watch();
}

void BufferedStream::close() {
  closing_ = true;
  if (out_.empty()) end_writing();
}

void BufferedStream::abandon() {
  out_.clear();
  close();
}

void BufferedStream::hang_up() {
  out_.clear();
  closing_ = true;
  at_end_ = true;
  poll_.reset();
  fd_.reset();
}

std::uint64_t BufferedStream::taken() const {
  int in_pipe = 0;
  bool is_pipe = fd_ && ::fcntl(fd_.get(), F_GETPIPE_SZ) > 0;
  if (!is_pipe || ::ioctl(fd_.get(), FIONREAD, &in_pipe) < 0) in_pipe = 0;
  return written_ - out_.size() - static_cast<std::uint64_t>(in_pipe);
}

void BufferedStream::flush() {
  ssize_t written = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
  if (written < 0 && errno == ENOTSOCK) written = ::write(fd_.get(), out_.data(), out_.size());
  if (written < 0 && later(errno)) return;
  if (written < 0) {
    out_.clear();
    closing_ = true;
  } else {
    out_.erase(0, static_cast<std::size_t>(written));
  }
  if (out_.empty() && closing_) end_writing();
  if (written > 0 && callbacks_.on_room) callbacks_.on_room(static_cast<std::size_t>(written));
}

void BufferedStream::end_writing() {
  if (!options_.writable || !fd_) return;
  if (!at_end_) {
    ::shutdown(fd_.get(), SHUT_WR);  // of a socket that is still read from
  } else {
    poll_.reset();
    fd_.reset();
  }
}

// ---- both ----------------------------------------------------------------------

void BufferedStream::on_events(int events) {
  const bool ended = at_end_;
  if (events == 0) {
    out_.clear();
    closing_ = true;
    end_reading();
  }
  if (fd_ && (events & event::Poll::kReadable) != 0 && !at_end_) fill();
  if (fd_ && (events & event::Poll::kWritable) != 0 && !out_.empty()) flush();
  if (at_end_ && out_.empty() && (closing_ || options_.readable)) {
    // On a socket both directions are over: a peer that writes no more has gone.
    closing_ = true;
    poll_.reset();
    fd_.reset();
  }
  static_cast<void>(watch());
  // comes last, as it may destroy this stream
  if (at_end_ && !ended && callbacks_.on_end) callbacks_.on_end();
}

Result<void> BufferedStream::watch() {
  if (!poll_) return {};
  bool room = unread() < options_.buffer_size;
  int wanted =
      (!at_end_ && !paused_ && room ? event::Poll::kReadable : 0) | (!out_.empty() ? event::Poll::kWritable : 0);
  if (std::exchange(watched_, wanted) == wanted) return {};
  if (wanted != 0) return poll_->start(wanted);
  poll_->stop();
  return {};
}

}  // namespace nacre::task
