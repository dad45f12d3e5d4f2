// SPDX-License-Identifier: Apache-2.0
//
// Calls to the owner that wait until the caller has nothing else to do: the owner may call back at once.
#pragma once

#include <deque>
#include <functional>
#include <utility>

namespace nacre::group {

class DeferredCalls {
 public:
  using Call = std::function<void()>;

  void add(Call call) { waiting_.push_back(std::move(call)); }
  // Moves the calls of `later` behind those that are here.
  void take(DeferredCalls& later) {
    for (Call& each : std::exchange(later.waiting_, {})) add(std::move(each));
  }
  // Makes the first call; false: there is none.
  bool call_next() {
    if (waiting_.empty()) return false;
    Call first = std::move(waiting_.front());
    waiting_.pop_front();
    first();
    return true;
  }

 private:
  std::deque<Call> waiting_;
};

}  // namespace nacre::group
