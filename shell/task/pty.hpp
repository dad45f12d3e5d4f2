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
  void hang_up();                                             // the master must not be watched any more

  // The foreground processes get SIGWINCH if the size changes. With viewers the size is the smallest of theirs and,
  // if `is_shown`, of this one.
  Result<void> set_size(const winsize& size, bool is_shown = false);
  // Sets the terminal's modes on the slave, which has to be open.
  Result<void> set_modes(const termios& modes);

  // Takes the master out, as a Pty without a slave, for an owner that passes on what the task writes. That owner
  // writes to a pipe, whose other end, `reader`, replaces the master here. To be called before there are viewers;
  // the new Pty has to live as long as this one.
  [[nodiscard]] std::unique_ptr<Pty> split(UniqueFd reader);

  // ---- viewers, beside the one that reads the master
  static constexpr std::size_t kKept = std::size_t{64} << 10;  // bytes that later viewers can read
  // Keeps what note() gets from now on.
  void keep() { keeps_ = true; }
  // The reader of the master reports what it has read, and the end of it.
  void note(std::string_view bytes);
  void note_end();
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::uint64_t written() const { return written_; }  // bytes that were noted
  // What is kept from this position on. What is older than `kKept` has gone: then it begins later.
  [[nodiscard]] std::string_view kept_from(std::uint64_t position) const;
  // `on_change`: something was noted, or the terminal is hung up. It may remove viewers. Returns its number.
  std::uint64_t add_viewer(const winsize& size, std::function<void()> on_change);
  void resize_viewer(std::uint64_t viewer, const winsize& size);
  void remove_viewer(std::uint64_t viewer);
  // The Pty to which viewers belong: this one, or the one that split() has made.
  [[nodiscard]] Pty& viewed() { return split_ != nullptr ? *split_ : *this; }

  // Whether what the task writes goes where its stdout goes; if not, another owner reads the master.
  [[nodiscard]] bool captured() const { return captured_; }
  void set_captured(bool captured) { captured_ = captured; }

 private:
  struct Viewer {
    winsize size{};
    std::function<void()> on_change;
  };
  Pty(UniqueFd master, UniqueFd slave) : master_(std::move(master)), slave_(std::move(slave)) {}
  Result<void> apply_size();
  void call_viewers();

  UniqueFd master_;
  UniqueFd slave_;
  bool captured_ = false;
  Pty* split_ = nullptr;
  winsize size_{};  // without viewers
  bool is_shown_ = false;
  bool keeps_ = false, ended_ = false;
  std::string kept_;  // the last up to 2 * kKept bytes
  std::uint64_t written_ = 0;
  std::map<std::uint64_t, Viewer> viewers_;
  std::uint64_t last_viewer_ = 0;
};

}  // namespace nacre::task
