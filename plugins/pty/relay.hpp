// SPDX-License-Identifier: Apache-2.0
//
// Moves bytes between a task's pty and the shell's terminal, both ways, as long as both exist. What one side does
// not take is not read from the other: a slow terminal stops the task, and a task that does not read stops the
// input.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "io/terminal.hpp"
#include "plugin/host.hpp"
#include "task/pty.hpp"

namespace nacre::plugins {

class PtyRelay {
 public:
  enum class End {
    task,      // all that the task wrote has come out
    terminal,  // it has gone: the pty is hung up
  };

  // Both have to live until `on_end`, which is called once, and may destroy them but not the relay.
  static Result<std::unique_ptr<PtyRelay>> start(event::Loop& loop, task::Pty& pty, io::Terminal& terminal,
                                                 std::function<void(End)> on_end);
  // Copies all that the task writes to `fd`, a pipe: its reader too stops the task if it is slow.
  Result<void> copy_to(event::Loop& loop, UniqueFd fd);
  // Ends it though the task has not, as if the terminal had gone; before `on_end`.
  void hang_up() { finish(End::terminal); }
  PtyRelay(const PtyRelay&) = delete;
  PtyRelay& operator=(const PtyRelay&) = delete;

 private:
  static constexpr std::size_t kBuffer = std::size_t{16} << 10;  // bytes, each way

  struct Buffer {
    std::array<char, kBuffer> bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
    [[nodiscard]] bool empty() const { return begin == end; }
  };
  struct Watched {
    std::optional<event::Poll> poll;
    int events = 0;
  };
  enum class Moved { some, later, ended };

  PtyRelay(task::Pty& pty, io::Terminal& terminal, std::function<void(End)> on_end)
      : pty_(pty), terminal_(terminal), on_end_(std::move(on_end)) {}
  Result<void> watch(event::Loop& loop);
  Result<void> watch_signals(event::Loop& loop);
  void task_ready(int events);
  void input_ready(int events);
  void output_ready(int events);
  void copy_ready(int events);
  void read_task();
  void end_copy();
  void go_on();
  void finish(End end);
  void resize();
  void look_for_terminal();
  static Moved fill(int fd, Buffer& buffer);
  static Moved drain(int fd, Buffer& buffer);
  Result<void> await(Watched& watched, int events);

  task::Pty& pty_;
  io::Terminal& terminal_;
  std::function<void(End)> on_end_;
  Buffer out_;   // to the terminal
  Buffer copy_;  // the same, to copy_fd_
  Buffer in_;    // to the task
  bool task_ended_ = false;
  Watched task_, input_, output_, copier_;
  UniqueFd copy_fd_;
  std::vector<event::SignalWatcher> signals_;
};

}  // namespace nacre::plugins
