// SPDX-License-Identifier: Apache-2.0
//
// When children have died, and in which order, by the kernel: wait(2) has several that have died in the order of
// their start. Each has a pidfd in one epoll set, whose list of what is ready is in the order in which it became
// so, however late that is looked at. A thread looks at once, where times count too.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

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
  // Times are from now on not later because this thread is busy.
  Result<void> look_by_thread();

  [[nodiscard]] bool expects(pid_t pid) const { return expected_.contains(pid); }
  [[nodiscard]] bool is_idle() const { return expected_.empty(); }
  // The next of those that have died, in the order of their deaths; none: no other has.
  std::optional<pid_t> next();
  // Its death, once; by now if it is not known.
  Death take(pid_t pid);

 private:
  explicit Deaths(UniqueFd set) : set_(std::move(set)) {}
  void look();
  void wait_and_look();

  UniqueFd set_, stop_;  // epoll(7), eventfd(2)
  std::map<pid_t, UniqueFd> expected_;
  std::deque<pid_t> untold_;
  std::map<pid_t, Death> known_;

  struct Noted {
    pid_t pid;
    Death death;
  };
  std::mutex mutex_;  // for what follows
  std::deque<Noted> noted_;
  std::uint64_t count_ = 0;
  std::thread thread_;
};

}  // namespace nacre::event
