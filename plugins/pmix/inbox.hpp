// SPDX-License-Identifier: Apache-2.0
//
// From libpmix's thread to the shell's loop: the loop runs what is posted, in the order of posting.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "flux.hpp"

namespace nacre::pmix {

class Inbox {
 public:
  using Letter = std::function<void()>;

  static std::unique_ptr<Inbox> create(flux_reactor_t* reactor);  // nullptr with errno
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void post(Letter letter);  // may be called from any thread
  void read();               // on the loop's thread: runs all that was posted so far

 private:
  explicit Inbox(int fd) : fd_(fd) {}

  int fd_;
  flux_watcher_t* watcher_ = nullptr;
  std::mutex mutex_;
  std::vector<Letter> letters_;
};

}  // namespace nacre::pmix
