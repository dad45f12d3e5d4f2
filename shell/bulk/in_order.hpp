// SPDX-License-Identifier: Apache-2.0
//
// Numbered things of which some are done before others: up to which one all are.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

#include "bulk/options.hpp"

namespace nacre::bulk {

class InOrder {
 public:
  // A larger number each time.
  void add(Numbered number) { waiting_.push_back({number, false}); }
  // One that was added; the last of those up to which all are done, if that is a new one.
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
