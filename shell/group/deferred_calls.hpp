// SPDX-License-Identifier: Apache-2.0
//
// Calls to the owner that wait until the caller has nothing else to do: the owner may call back at once. Some of
// them also wait until the owner serves.
#pragma once

#include "base/usual.hpp"

namespace nacre::group {

class DeferredCalls {
 public:
  using Call = std::function<void()>;

  void add(Call call) { waiting_.push_back(std::move(call)); }
  void add_for_served(Call call) { (serving_ ? waiting_ : kept_).push_back(std::move(call)); }
  // The owner serves from now on: calls kept for that come behind those that wait already.
  void serve() {
    serving_ = true;
    for (Call& each : std::exchange(kept_, {})) add(std::move(each));
  }
  // Drops the calls that wait for the owner to serve.
  void drop_kept() { kept_.clear(); }
  [[nodiscard]] bool serving() const { return serving_; }
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
  std::deque<Call> kept_;
  bool serving_ = false;
};

}  // namespace nacre::group
