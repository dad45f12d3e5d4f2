// SPDX-License-Identifier: Apache-2.0
//
// Numbered things that are done in any order: gives the number up to which all are done.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

#include "base/invariant.hpp"
#include "bulk/options.hpp"

namespace nacre::bulk {

class InOrder {
 public:
  // The numbers ascend.
  void add(Numbered number) {
    INVARIANT(waiting_.empty() || number > waiting_.back().number);
    waiting_.push_back({number, false});
  }
  // Marks a number that was added. Returns the last number up to which all are done, if it is a new one.
  std::optional<Numbered> done(Numbered number) {
    auto found =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const One& one) { return one.number == number; });
    if (found != waiting_.end()) found->done = true;
    std::optional<Numbered> out;
    for (; !waiting_.empty() && waiting_.front().done; waiting_.pop_front()) out = waiting_.front().number;
    return out;
  }

 private:
  struct One {
    Numbered number;
    bool done;
  };
  std::deque<One> waiting_;
};

}  // namespace nacre::bulk
