// SPDX-License-Identifier: Apache-2.0
//
// The terminal on which this process was started, lent to a program elsewhere. It is raw, so that each key goes to
// that program's own terminal, which handles it as the program demands. However this ends, the terminal gets its
// settings back: if this process is killed, a small process that waits for that restores them.
#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include "event/children.hpp"

namespace nacre::io {

// Whether standard input and output are terminals.
[[nodiscard]] bool at_terminal();

// The size of the terminal that stdin, stdout or stderr is; none if none of them is one.
[[nodiscard]] std::optional<winsize> terminal_size();
[[nodiscard]] std::optional<termios> terminal_modes();

class Terminal : Noncopyable {
 public:
  // Makes it raw. In the background this stops the process until it is in the foreground. There may be only one at
  // a time. `children`: of a process that watches its own; null: it does not.
  static Result<std::unique_ptr<Terminal>> borrow(event::Children* children);
  ~Terminal();  // restores it

  // Non-blocking, with flags that no other process shares.
  [[nodiscard]] int input() const { return input_.get(); }
  [[nodiscard]] int output() const { return output_.get(); }

  // Before this process stops: the next user of the terminal finds it as it was.
  void suspend();
  // After it continues, unless it is in the background. Also after a stop that was not announced, in which others
  // may have changed it.
  Result<void> resume();

 private:
  Terminal(event::Children* children, const termios& before) : children_(children), before_(before) {}
  Result<void> set_raw();
  Result<void> start_guard();
  void end_guard();

  event::Children* children_;
  termios before_;
  termios raw_{};  // the settings that the terminal has now
  bool is_raw_ = false;
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd alive_;   // the guard acts when this is closed
  pid_t guard_ = 0;  // 0: there is none
};

}  // namespace nacre::io
