// SPDX-License-Identifier: Apache-2.0
//
// When children have died, and in which order, by the kernel: wait(2) has several that have died in the order of
// their start. Each has a pidfd in one epoll set, whose list of what is ready is in the order in which it became
// so, however late that is looked at. SIGCHLD's handler looks at once, where times count too.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"

namespace nacre::event {

struct Death {
  Seconds at{};             // by clock_now(): not before it died, and soon after
  std::uint64_t order = 0;  // among those of this process, from 1; 0: not known
};

class Deaths {
 public:
  static Result<std::unique_ptr<Deaths>> create();
  ~Deaths();
  Deaths(const Deaths&) = delete;
  Deaths& operator=(const Deaths&) = delete;

  // Of a child that has not been reaped. Does nothing if there is no pidfd to be had.
  void expect(pid_t pid);
  // Times are from now on not later because this thread is busy. For one object of a process; SIGCHLD must have its
  // other handler by then, which is called, too.
  void look_at_signals();

  [[nodiscard]] bool expects(pid_t pid) const { return expected_.contains(pid); }
  [[nodiscard]] bool is_idle() const { return expected_.empty(); }
  // The next of those that have died, in the order of their deaths; none: no other has.
  std::optional<pid_t> next();
  // Its death, once; by now if it is not known.
  Death take(pid_t pid);

 private:
  struct Noted {
    pid_t pid;
    Death death;
  };

  explicit Deaths(UniqueFd set) : set_(std::move(set)) {}
  static void on_signal(int signum, siginfo_t* info, void* context);
  void look();
  void take_over();

  const pid_t owner_ = ::getpid();
  UniqueFd set_;  // epoll(7)
  std::map<pid_t, UniqueFd> expected_;
  std::deque<pid_t> untold_;
  std::map<pid_t, Death> known_;

  std::atomic_flag is_in_use_;  // what follows, which the handler uses, too
  std::array<Noted, 256> noted_{};
  std::size_t size_ = 0;     // of noted_
  std::uint64_t count_ = 0;  // of all so far
};

}  // namespace nacre::event
