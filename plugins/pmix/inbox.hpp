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

class ReactorInbox {
 public:
  using Letter = std::function<void()>;

  static std::unique_ptr<ReactorInbox> create(flux_reactor_t* reactor);  // nullptr with errno
  ~ReactorInbox();
  ReactorInbox(const ReactorInbox&) = delete;
  ReactorInbox& operator=(const ReactorInbox&) = delete;

  void post(Letter letter);  // may be called from any thread
  void read();               // on the loop's thread: runs all that was posted so far

 private:
  explicit ReactorInbox(int fd) : fd_(fd) {}

  int fd_;
  flux_watcher_t* watcher_ = nullptr;
  std::mutex mutex_;
  std::vector<Letter> letters_;
};

}  // namespace nacre::pmix
