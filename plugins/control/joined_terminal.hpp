// SPDX-License-Identifier: Apache-2.0
//
// A viewer of a task's terminal: it reads what the task has written, from the last 64 KiB on, types, and has a
// size. The task never waits for it: what it has not read in time it misses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "event/loop.hpp"
#include "task/stream.hpp"
#include "task/task.hpp"

namespace nacre::plugins {

class JoinedTerminal {
 public:
  struct Callbacks {
    std::function<void()> on_change;  // there is more to read, or the end. It may destroy this object
    std::function<void()> on_taken;   // of what was typed
  };

  // ENOTTY: the task has no terminal. ESRCH: it does not run. The task has to outlive this object.
  static Result<std::unique_ptr<JoinedTerminal>> join(event::Loop& loop, const task::Task& task,
                                                      const winsize& size, std::size_t typed_ahead,
                                                      Callbacks callbacks);
  ~JoinedTerminal();
  JoinedTerminal(const JoinedTerminal&) = delete;
  JoinedTerminal& operator=(const JoinedTerminal&) = delete;

  // Bytes that it has missed since the last call, before those that read() returns next.
  std::uint64_t missed();
  // The next bytes, after missed(); they are valid until the task writes more. Empty: there are none now.
  std::string_view read(std::size_t most);
  // The task has ended, and all that it wrote was read.
  [[nodiscard]] bool ended() const;
  [[nodiscard]] const value::WaitStatus& status() const { return task_.status(); }  // once ended

  [[nodiscard]] task::BufferedStream& keys() { return *keys_; }
  void resize(const winsize& size);

 private:
  JoinedTerminal(const task::Task& task, Callbacks callbacks)
      : task_(task), pty_(task.pty()->viewed()), callbacks_(std::move(callbacks)) {}
  void change();
  [[nodiscard]] std::string_view unread() const { return pty_.kept_from(position_); }

  const task::Task& task_;
  task::Pty& pty_;
  Callbacks callbacks_;
  std::uint64_t viewer_ = 0;    // its number
  std::uint64_t position_ = 0;  // bytes of what the task has written
  std::unique_ptr<task::BufferedStream> keys_;
};

}  // namespace nacre::plugins
