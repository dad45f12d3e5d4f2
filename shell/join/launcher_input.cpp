// SPDX-License-Identifier: Apache-2.0
#include "join/launcher_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>

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

void LauncherInput::take(std::string_view bytes) {
  if (!is_given_ && !put(bytes) && stream_ != nullptr) stream_->want_input(false);
}

void LauncherInput::end() {
  if (!is_given_) finish();
}

void LauncherInput::let_go() {
  take_held();
  stream_ = nullptr;
  if (!is_given_) leave();
}

// What the stream holds is the launcher's: it was sent before.
void LauncherInput::take_held() {
  if (is_given_ || stream_ == nullptr) return;
  launch::LaunchStream::Held held = stream_->take_held();
  if (!held.bytes.empty()) put(held.bytes);
  if (held.ended) finish();
}

void LauncherInput::give(std::function<void()> on_room) {
  take_held();
  is_given_ = true;
  on_room_ = std::move(on_room);
  if (stream_ != nullptr) stream_->want_input(true);
}

// After an error the input has no reader any more, and it is dropped.
bool LauncherInput::put(std::string_view bytes) {
  if (ended_) return true;
  std::array pieces{bytes};
  return !sink_->write(pieces) || !sink_->full();
}

void LauncherInput::end_given() {
  on_room_ = nullptr;
  finish();
}

void LauncherInput::leave() {
  on_room_ = nullptr;
  if (ends_with_owner_) finish();
}

void LauncherInput::finish() {
  if (std::exchange(ended_, true)) return;
  go_on();
}

// The pipe must not be closed within a call of its sink.
void LauncherInput::go_on() {
  if (ended_) {
    if (sink_ && sink_->flushed()) end_timer_->start(event::Seconds::zero());
  } else if (!sink_->full()) {
    if (on_room_) on_room_();
    if (stream_ != nullptr && !is_given_) stream_->want_input(true);
  }
}

}  // namespace nacre::join
