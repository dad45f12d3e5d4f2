// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "launch/stream.hpp"

namespace nacre::launch {
namespace {

// Bytes that are read before the leader's agent has taken them
constexpr std::size_t kAhead = std::size_t{256} << 10;
constexpr event::Seconds kOthersTerminal{0.5};

// A terminal stops background processes that read it.
bool is_in_background(int fd) {
  pid_t foreground = ::tcgetpgrp(fd);
  return foreground >= 0 && foreground != ::getpgrp();
}

}  // namespace

Result<std::unique_ptr<LaunchFeed>> LaunchFeed::create(event::Loop& loop, task::BufferedStream& to, int input) {
  std::unique_ptr<LaunchFeed> out(new LaunchFeed(to, input));
  LaunchFeed* self = out.get();
  struct stat status {};
  if (input < 0 || ::fstat(input, &status) < 0) {
    self->end_input();
    return out;
  }
  self->timer_ = TRY(event::Timer::create(loop, [self] { self->pump(); }));
  self->timer_->unref();
  self->is_file_ = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
  if (!self->is_file_) {
    // Other processes share the description, so its flags must not be set for them.
    self->own_ = UniqueFd(
        ::open(fmt::format("/proc/self/fd/{}", input).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (self->own_) self->input_ = self->own_.get();
    if (!self->own_) self->flags_ = ::fcntl(input, F_GETFL);
    auto poll = event::Poll::create(loop, self->input_, [self](int) { self->pump(); });
    if (poll) {
      poll->keeps_running(false);
      self->poll_ = std::move(*poll);
    } else {
      self->is_file_ = true;  // /dev/null, /dev/zero and the like
    }
  }
  self->wait_for_input();
  return out;
}

LaunchFeed::~LaunchFeed() {
  poll_.reset();
  if (flags_ >= 0) ::fcntl(input_, F_SETFL, flags_);
}

void LaunchFeed::signal(int signum) { send("signal", signum); }

void LaunchFeed::end(int signum) { send("end", signum); }

void LaunchFeed::detach() { send_frame(R"({"detach":true})"); }

void LaunchFeed::send(std::string_view what, int signum) { send_frame(fmt::format("{{\"{}\":{}}}", what, signum)); }

void LaunchFeed::send_frame(const std::string& body) {
  std::string record;
  transport::append_frame_head(record, body.size());
  // If it fails the shell has gone, and the end of its agent reports that.
  static_cast<void>(to_.write(record + body));
}

void LaunchFeed::on_room() {
  if (input_ >= 0) wait_for_input();
}

void LaunchFeed::wait_for_input() {
  if (is_file_) {
    timer_->start(event::Seconds::zero());
  } else {
    static_cast<void>(poll_->start(event::Poll::kReadable));
  }
}

void LaunchFeed::pump() {
  if (input_ < 0) return;
  std::size_t unsent = task::BufferedStream::kBufferSize - std::min(to_.room(), task::BufferedStream::kBufferSize);
  if (unsent >= kAhead) {
    if (poll_) poll_->stop();
    return;
  }
  if (is_in_background(input_)) {
    if (poll_) poll_->stop();
    timer_->start(kOthersTerminal);
    return;
  }
  if (read_once()) wait_for_input();
}

// False: nothing can be read now, or ever again.
bool LaunchFeed::read_once() {
  std::array<char, transport::kMaxChunk> buffer;
  ssize_t got = ::read(input_, buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got < 0 && errno == EIO && ::isatty(input_) == 1) {
    if (poll_) poll_->stop();
    timer_->start(kOthersTerminal);
    return false;
  }
  if (got <= 0) {
    end_input();
    return false;
  }
  std::string record;
  transport::append_bulk_head(record, kInputStream, static_cast<std::size_t>(got));
  record.append(buffer.data(), static_cast<std::size_t>(got));
  if (to_.write(record)) return true;
  end_input();
  return false;
}

void LaunchFeed::end_input() {
  if (poll_) poll_->stop();
  if (flags_ >= 0) ::fcntl(input_, F_SETFL, flags_);
  flags_ = -1;
  input_ = -1;
  std::string record;
  transport::append_stream_record(record, transport::LinkRecordKind::end, kInputStream);
  static_cast<void>(to_.write(record));
}

}  // namespace nacre::launch
