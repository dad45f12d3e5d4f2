// SPDX-License-Identifier: Apache-2.0
//
// The terminal on which the shell was started, lent to a task. It is raw, so that each key goes to the task's own
// terminal, which handles it as the task demands. However this ends, the terminal gets its settings back: if the
// shell is killed, a small process that waits for that restores them.
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

// The size of the terminal that stdin, stdout or stderr is; none if none of them is one.
[[nodiscard]] std::optional<winsize> terminal_size();
[[nodiscard]] std::optional<termios> terminal_modes();

class Terminal {
 public:
  // Makes it raw. In the background this stops the process until it is in the foreground. There may be only one at
  // a time.
  static Result<std::unique_ptr<Terminal>> borrow(plugin::Host& host);
  ~Terminal();  // restores it
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Non-blocking, with flags that no other process shares.
  [[nodiscard]] int input() const { return input_.get(); }
  [[nodiscard]] int output() const { return output_.get(); }

  // Before the shell stops: the next user of the terminal finds it as it was.
  void suspend();
  // After the shell continues, unless it is in the background. Also after a stop that was not announced, in which
  // others may have changed it.
  void resume();

 private:
  Terminal(plugin::Host& host, const termios& before) : host_(host), before_(before) {}
  Result<void> set_raw();
  Result<void> start_guard();
  void end_guard();

  plugin::Host& host_;
  termios before_;
  termios raw_{};  // the settings that the terminal has now
  bool is_raw_ = false;
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd alive_;   // the guard acts when this is closed
  pid_t guard_ = 0;  // 0: there is none
};

}  // namespace nacre::plugins
