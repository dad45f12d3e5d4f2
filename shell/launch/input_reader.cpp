// SPDX-License-Identifier: Apache-2.0
#include "launch/input_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/foreground.hpp"
#include "base/heap_buffer.hpp"
#include "transport/wire.hpp"

namespace nacre::launch {
namespace {

constexpr event::Seconds kOthersTerminal{0.5};

}  // namespace

Result<std::unique_ptr<InputReader>> InputReader::create(event::Loop& loop, int input, Callbacks callbacks) {
  std::unique_ptr<InputReader> out(new InputReader(std::move(callbacks)));
  CHECK_OK(out->open(loop, input));
  out->await();
  return out;
}

Result<void> InputReader::open(event::Loop& loop, int input) {
  struct stat status {};
  if (input < 0 || ::fstat(input, &status) < 0) return system_error(EBADF, "standard input");
  timer_ = TRY(event::Timer::create(loop, [this] { pump(); }));
  timer_->unref();
  input_ = input;
  is_file_ = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
  if (is_file_) return {};
  // Other processes share the description, so its flags must not be set for them.
  own_ = UniqueFd(
      ::open(fmt::format("/proc/self/fd/{}", input).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (own_) input_ = own_.get();
  if (!own_) flags_ = ::fcntl(input, F_GETFL);
  is_file_ = S_ISFIFO(status.st_mode) && has_no_writer(input);
  auto poll = event::Poll::create(loop, input_, [this](int) { pump(); });
  if (poll) {
    poll->keeps_running(false);
    poll_ = std::move(*poll);
  } else {
    is_file_ = true;  // /dev/null, /dev/zero and the like
  }
  return {};
}

void InputReader::go_on() {
  if (input_ >= 0) await();
}

void InputReader::await() {
  if (is_file_) {
    timer_->start(event::Seconds::zero());
  } else {
    static_cast<void>(poll_->start(event::Poll::kReadable));
  }
}

void InputReader::pause() {
  if (poll_) poll_->stop();
}

void InputReader::pump() {
  if (input_ < 0) return;
  std::size_t room = callbacks_.room();
  if (room == 0) return pause();
  if (is_in_background(input_)) {
    pause();
    timer_->start(kOthersTerminal);
    return;
  }
  if (read_once(room) && input_ >= 0) await();
}

// False: nothing can be read now, or ever again.
bool InputReader::read_once(std::size_t room) {
  HeapBuffer<transport::kMaxChunk> buffer;
  ssize_t got = ::read(input_, buffer.data(), std::min(buffer.size(), room));
  if (got < 0 && errno == EAGAIN && poll_) is_file_ = false;  // a FIFO that has a writer again
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got < 0 && errno == EIO && ::isatty(input_) == 1) {
    pause();
    timer_->start(kOthersTerminal);
    return false;
  }
  if (got > 0) {
    callbacks_.on_bytes({buffer.data(), static_cast<std::size_t>(got)});
    return true;
  }
  stop();
  callbacks_.on_end();
  return false;
}

void InputReader::stop() {
  poll_.reset();
  if (timer_) timer_->stop();
  if (flags_ >= 0) ::fcntl(input_, F_SETFL, flags_);
  flags_ = -1;
  input_ = -1;
}

}  // namespace nacre::launch
