// SPDX-License-Identifier: Apache-2.0
#include "join/launcher_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace nacre::join {

Result<std::unique_ptr<LauncherInput>> LauncherInput::create(event::Loop& loop) {
  std::unique_ptr<LauncherInput> out(new LauncherInput());
  LauncherInput* self = out.get();
  Pipe pipe = TRY(make_pipe(O_CLOEXEC));
  if (::dup2(pipe.read.get(), STDIN_FILENO) < 0) return system_error(errno, "standard input");
  self->pipe_ = std::move(pipe.write);
  io::FdSink::Callbacks callbacks;
  callbacks.on_room = [self] { self->go_on(); };
  callbacks.on_error = [self](const Error&) { self->go_on(); };
  self->sink_ = TRY(io::FdSink::create(loop, self->pipe_.get(), "the launcher's input", {}, std::move(callbacks)));
  self->end_timer_ = TRY(event::Timer::create(loop, [self] {
    self->sink_.reset();
    self->pipe_.reset();
  }));
  return out;
}

// After an error the input has no reader any more, and it is dropped.
void LauncherInput::take(std::string_view bytes) {
  std::array pieces{bytes};
  if (sink_->write(pieces) && sink_->full() && stream_ != nullptr) stream_->want_input(false);
}

void LauncherInput::end() {
  ended_ = true;
  go_on();
}

void LauncherInput::let_go() {
  stream_ = nullptr;
  if (!ended_) end();
}

// The pipe must not be closed within a call of its sink.
void LauncherInput::go_on() {
  if (ended_) {
    if (sink_ && sink_->flushed()) end_timer_->start(event::Seconds::zero());
  } else if (!sink_->full() && stream_ != nullptr) {
    stream_->want_input(true);
  }
}

}  // namespace nacre::join
