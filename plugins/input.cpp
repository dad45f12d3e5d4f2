// SPDX-License-Identifier: Apache-2.0
//
// input: task 0 reads the shell's own stdin; the others find it empty. A file or a pipe is handed to the task as it
// is. Of a terminal the shell stays the reader, since a task in a process group of its own would be stopped when it
// reads.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/unique_fd.hpp"
#include "builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kBufferSize = std::size_t{64} << 10;  // bytes

class Input final : public plugin::Plugin {
 public:
  explicit Input(plugin::Host& host) : Plugin("input"), host_(host) {
    on("task.init", [this](plugin::Call&) { return prepare(*host_.current_task()); });
    on("task.fork", [this](plugin::Call&) { return feed(*host_.current_task()); });
    on("shell.finish", [this](plugin::Call&) {
      stop();
      return Result<void>();
    });
  }
  ~Input() override { stop(); }

 private:
  Result<void> prepare(task::Task& task) {
    if (task.rank() != 0) {
      task.command().setup.fds.push_back({STDIN_FILENO, -1});
    } else if (::isatty(STDIN_FILENO) == 1) {
      Pipe pipe = TRY(make_pipe(O_CLOEXEC));
      task.command().setup.fds.push_back({STDIN_FILENO, pipe.read.get()});
      task_end_ = std::move(pipe.read);
      to_task_ = std::move(pipe.write);
    }
    return {};
  }

  Result<void> feed(const task::Task& task) {
    if (task.rank() != 0 || !to_task_) return {};
    task_end_.reset();
    terminal_flags_ = ::fcntl(STDIN_FILENO, F_GETFL);
    from_terminal_ = TRY(event::Poll::create(host_.loop(), STDIN_FILENO, [this](int) { read_some(); }));
    into_task_ = TRY(event::Poll::create(host_.loop(), to_task_.get(), [this](int) { write_some(); }));
    return from_terminal_->start(event::Poll::kReadable);
  }

  void read_some() {
    buffer_.resize(kBufferSize);
    ssize_t got = ::read(STDIN_FILENO, buffer_.data(), buffer_.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    buffer_.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (buffer_.empty()) return stop();
    from_terminal_->stop();
    write_some();
  }

  // The terminal is read again only once the task has taken all of what was read.
  void write_some() {
    ssize_t written = ::write(to_task_.get(), buffer_.data(), buffer_.size());
    if (written < 0 && errno != EAGAIN && errno != EINTR) return stop();  // EPIPE: the task reads no more
    buffer_.erase(0, static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    Result<void> next =
        buffer_.empty() ? from_terminal_->start(event::Poll::kReadable) : into_task_->start(event::Poll::kWritable);
    if (buffer_.empty()) into_task_->stop();
    if (!next) {
      log(host_, *this, Level::error, "{}", next.error().message);
      stop();
    }
  }

  void stop() {
    // O_NONBLOCK is a flag of the terminal that all who have it open share: give it back as it was.
    if (std::exchange(from_terminal_, std::nullopt)) ::fcntl(STDIN_FILENO, F_SETFL, terminal_flags_);
    into_task_.reset();
    to_task_.reset();
  }

  plugin::Host& host_;
  UniqueFd task_end_;  // until the task has it
  UniqueFd to_task_;
  int terminal_flags_ = 0;
  std::optional<event::Poll> from_terminal_;
  std::optional<event::Poll> into_task_;
  std::string buffer_;
};

}  // namespace

PluginPtr make_input(plugin::Host& host) { return std::make_unique<Input>(host); }

}  // namespace nacre::plugins
