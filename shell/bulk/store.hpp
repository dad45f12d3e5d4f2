// SPDX-License-Identifier: Apache-2.0
//
// The newest part of the broadcast that this shell has: all that another shell may still need.
#pragma once

#include <deque>
#include <set>
#include <string>

#include "bulk/wire.hpp"

namespace nacre::bulk {

class BroadcastStore {
 public:
  struct Kept {
    Head head;
    std::string bytes;
  };

  // The last number that was dropped, and the last one that came.
  [[nodiscard]] Numbered stable() const { return stable_; }
  [[nodiscard]] Numbered have() const { return stable_ + records_.size(); }
  [[nodiscard]] const Kept* find(Numbered number) const {
    return number > stable_ && number <= have() ? &records_[number - stable_ - 1] : nullptr;
  }
  // Adds the record have() + 1. Its bytes do not move until it is dropped.
  const Kept& add(Head head, std::string_view bytes);
  // Drops the records up to this number.
  void drop(Numbered stable);
  // Empties the store; the next record is `stable` + 1.
  void start_after(Numbered stable);

  void end(Channel channel) { ended_.insert(channel); }
  [[nodiscard]] const std::set<Channel>& ended() const { return ended_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // of all that is here, with heads

 private:
  std::deque<Kept> records_;
  Numbered stable_ = 0;
  std::size_t bytes_ = 0;
  std::set<Channel> ended_;
};

}  // namespace nacre::bulk
