// SPDX-License-Identifier: Apache-2.0
//
// What the owner is to be told once what wants to tell it has nothing else to do: the owner may call back at once.
#pragma once

#include <deque>
#include <functional>
#include <utility>

namespace nacre::group {

class DeferredCalls {
 public:
  using Told = std::function<void()>;

  void add(Told told) { waiting_.push_back(std::move(told)); }
  // Those of `later`, which is empty then, come after what is here.
  void take(DeferredCalls& later) {
    for (Told& each : std::exchange(later.waiting_, {})) add(std::move(each));
  }
  // False if there was none.
  bool tell_next() {
    if (waiting_.empty()) return false;
    Told first = std::move(waiting_.front());
    waiting_.pop_front();
    first();
    return true;
  }

 private:
  std::deque<Told> waiting_;
};

}  // namespace nacre::group
