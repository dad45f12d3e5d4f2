// SPDX-License-Identifier: Apache-2.0
//
// The terminal that the shell was started on, lent to a task: raw, so that each key goes to the task's own terminal,
// which makes of it what the task has asked for. It gets its settings back when this ends, however that comes about:
// should the shell be killed, a small process that waits for that gives them back.
#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include <memory>
#include <optional>

#include "base/unique_fd.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// Whether standard input and output are terminals.
[[nodiscard]] bool at_terminal();

// Of the terminal that one of stdin, stdout and stderr is; none if none is one.
[[nodiscard]] std::optional<winsize> terminal_size();
[[nodiscard]] std::optional<termios> terminal_modes();

class Terminal {
 public:
  // Makes it raw. In the background this stops the process until it is in the foreground. At most one at a time.
  static Result<std::unique_ptr<Terminal>> borrow(plugin::Host& host);
  ~Terminal();  // gives it back
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Non-blocking, with flags that nobody shares.
  [[nodiscard]] int input() const { return input_.get(); }
  [[nodiscard]] int output() const { return output_.get(); }

  // Around a stop of the shell: whoever has the terminal then finds it as it was.
  void suspend();
  // Once it goes on, not in the background. Also after a stop that was not announced, in which others have set it.
  void resume();

 private:
  Terminal(plugin::Host& host, const termios& before) : host_(host), before_(before) {}
  Result<void> set_raw();
  Result<void> start_guard();
  void end_guard();

  plugin::Host& host_;
  termios before_;
  termios raw_{};  // as the terminal has it
  bool is_raw_ = false;
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd alive_;   // the guard acts when this is closed
  pid_t guard_ = 0;  // 0: there is none
};

}  // namespace nacre::plugins
