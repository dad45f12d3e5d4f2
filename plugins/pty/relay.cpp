// SPDX-License-Identifier: Apache-2.0
#include "plugins/pty/relay.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace nacre::plugins {

using event::Poll;

Result<std::unique_ptr<PtyRelay>> PtyRelay::start(event::Loop& loop, task::Pty& pty, io::Terminal& terminal,
                                                  std::function<void(End)> on_end) {
  std::unique_ptr<PtyRelay> relay(new PtyRelay(pty, terminal, std::move(on_end)));
  CHECK_OK(relay->watch(loop));
  CHECK_OK(relay->watch_signals(loop));
  relay->resize();  // the size may have changed since the pty was made
  return relay;
}

Result<void> PtyRelay::watch(event::Loop& loop) {
  task_.poll = TRY(Poll::create(loop, pty_.master(), [this](int events) { task_ready(events); }));
  input_.poll = TRY(Poll::create(loop, terminal_.input(), [this](int events) { input_ready(events); }));
  output_.poll = TRY(Poll::create(loop, terminal_.output(), [this](int events) { output_ready(events); }));
  CHECK_OK(await(task_, Poll::kReadable));
  return await(input_, Poll::kReadable);
}

Result<void> PtyRelay::copy_to(event::Loop& loop, UniqueFd fd) {
  copier_.poll = TRY(Poll::create(loop, fd.get(), [this](int events) { copy_ready(events); }));
  copy_fd_ = std::move(fd);
  return {};
}

Result<void> PtyRelay::watch_signals(event::Loop& loop) {
  auto watch = [&](int signum, std::function<void(int)> received) -> Result<void> {
    signals_.push_back(TRY(event::SignalWatcher::create(loop, signum, std::move(received))));
    signals_.back().keeps_running(false);
    return {};
  };
  CHECK_OK(watch(SIGWINCH, [this](int) { resize(); }));
  CHECK_OK(watch(SIGTSTP, [this](int) { terminal_.suspend(); }));
  CHECK_OK(watch(SIGHUP, [this](int) { look_for_terminal(); }));
  return watch(SIGCONT, [this](int) {
    static_cast<void>(terminal_.resume());  // the terminal may have gone: its input ends then
    resize();
  });
}

void PtyRelay::resize() {
  winsize size{};
  if (pty_.master() < 0 || ::ioctl(terminal_.output(), TIOCGWINSZ, &size) < 0) return;
  static_cast<void>(pty_.set_size(size, true));
}

// While the task takes no input the terminal is not read, so its end has to be looked for.
void PtyRelay::look_for_terminal() {
  winsize size{};
  if (::ioctl(terminal_.input(), TIOCGWINSZ, &size) < 0) finish(End::terminal);
}

PtyRelay::Moved PtyRelay::fill(int fd, Buffer& buffer) {
  ssize_t got = ::read(fd, buffer.bytes.data(), buffer.bytes.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Moved::later;
  if (got <= 0) return Moved::ended;
  buffer.begin = 0;
  buffer.end = static_cast<std::size_t>(got);
  return Moved::some;
}

PtyRelay::Moved PtyRelay::drain(int fd, Buffer& buffer) {
  if (buffer.empty()) return Moved::some;
  ssize_t written = ::write(fd, buffer.bytes.data() + buffer.begin, buffer.end - buffer.begin);
  if (written < 0 && (errno == EAGAIN || errno == EINTR)) return Moved::later;
  if (written < 0) return Moved::ended;
  buffer.begin += static_cast<std::size_t>(written);
  return Moved::some;
}

// An error of a descriptor, 0, shows up in its next read or write.
void PtyRelay::task_ready(int events) {
  if (events == 0) task_.events = 0;
  if (drain(pty_.master(), in_) == Moved::ended) in_.begin = in_.end;  // it will never be read
  if (out_.empty() && copy_.empty() && !task_ended_) read_task();
  go_on();
}

void PtyRelay::read_task() {
  Moved moved = fill(pty_.master(), out_);
  task_ended_ = moved == Moved::ended;
  if (moved != Moved::some) return;
  if (copy_fd_) copy_ = out_;
  pty_.note({out_.bytes.data(), out_.end});
}

void PtyRelay::input_ready(int events) {
  if (events == 0) input_.events = 0;
  if (in_.empty() && fill(terminal_.input(), in_) == Moved::ended) return finish(End::terminal);
  if (drain(pty_.master(), in_) == Moved::ended) in_.begin = in_.end;
  go_on();
}

void PtyRelay::output_ready(int events) {
  if (events == 0) output_.events = 0;
  go_on();
}

void PtyRelay::copy_ready(int events) {
  if (events == 0) copier_.events = 0;
  go_on();
}

void PtyRelay::go_on() {
  if (drain(copy_fd_.get(), copy_) == Moved::ended) end_copy();
  if (drain(terminal_.output(), out_) == Moved::ended) return finish(End::terminal);
  bool all_out = out_.empty() && copy_.empty();
  if (all_out && task_ended_) return finish(End::task);
  int from_task = all_out ? Poll::kReadable : 0;
  bool watched = await(task_, from_task | (in_.empty() ? 0 : Poll::kWritable)) &&
                 await(input_, in_.empty() ? Poll::kReadable : 0) &&
                 await(output_, out_.empty() ? 0 : Poll::kWritable) &&
                 await(copier_, copy_.empty() ? 0 : Poll::kWritable);
  if (!watched) finish(End::terminal);
}

Result<void> PtyRelay::await(Watched& watched, int events) {
  if (std::exchange(watched.events, events) == events) return {};
  if (events != 0) return watched.poll->start(events);
  watched.poll->stop();
  return {};
}

// The reader of the copy has gone.
void PtyRelay::end_copy() {
  copy_.begin = copy_.end;
  copier_ = {};
  copy_fd_.reset();
}

void PtyRelay::finish(End end) {
  for (Watched* each : {&task_, &input_, &output_}) each->poll.reset();
  end_copy();
  signals_.clear();
  pty_.note_end();
  if (end == End::terminal) pty_.hang_up();
  on_end_(end);
}

}  // namespace nacre::plugins
