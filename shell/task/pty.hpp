// SPDX-License-Identifier: Apache-2.0
//
// A pseudo-terminal, pty(7). A task has one side, the slave, as its terminal. The holder of the other side, the
// master, acts as its user: it reads what the task writes, and writes what is typed.
//
// When the last slave is closed, reading the master gives what was written before, then EIO: the end. When the
// master is closed the task gets SIGHUP.
#pragma once

#include <sys/ioctl.h>
#include <termios.h>

#include <memory>
#include <optional>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nacre::task {

class Pty {
 public:
  // Both sides are close-on-exec. Without `size` it has 0 rows and columns: unknown. Errors name the limit that was
  // reached, and the remedy.
  static Result<std::unique_ptr<Pty>> open(const std::optional<winsize>& size);

  [[nodiscard]] int master() const { return master_.get(); }  // -1 after hang_up
  [[nodiscard]] int slave() const { return slave_.get(); }    // -1 once closed
  void close_slave() { slave_.reset(); }                      // once the task has it
  void hang_up() { master_.reset(); }                         // the master must not be watched any more

  // The foreground processes get SIGWINCH if the size changes.
  Result<void> set_size(const winsize& size);
  // Sets the terminal's modes on the slave, which has to be open.
  Result<void> set_modes(const termios& modes);

  // Takes the master out, as a Pty without a slave, for an owner that passes on what the task writes. That owner
  // writes to the pipe of which `reader`, which replaces the master here, is the other end.
  [[nodiscard]] std::unique_ptr<Pty> split(UniqueFd reader);

  // Whether what the task writes goes where its stdout goes; if not, another owner reads the master.
  [[nodiscard]] bool captured() const { return captured_; }
  void set_captured(bool captured) { captured_ = captured; }

 private:
  Pty(UniqueFd master, UniqueFd slave) : master_(std::move(master)), slave_(std::move(slave)) {}

  UniqueFd master_;
  UniqueFd slave_;
  bool captured_ = false;
};

}  // namespace nacre::task
