// SPDX-License-Identifier: Apache-2.0
//
// The entries that a member has applied and that others may still need: the end of the job's log.
#pragma once

#include <deque>

#include "overlay/entry.hpp"

namespace nacre::overlay {

class Log {
 public:
  // The number of the last entry; it may have been dropped.
  [[nodiscard]] Seq last() const { return first_ + entries_.size() - 1; }
  // The least number that is still here; last() + 1 if none is.
  [[nodiscard]] Seq first() const { return first_; }
  [[nodiscard]] const Entry* find(Seq seq) const {
    return seq >= first_ && seq <= last() ? &entries_[seq - first_] : nullptr;
  }

  // entry.seq is last() + 1.
  void append(Entry entry) { entries_.push_back(std::move(entry)); }
  // Of entries up to this one, those that are here.
  void drop(Seq stable) {
    for (; first_ <= stable && !entries_.empty(); ++first_) entries_.pop_front();
  }
  // Empty, after this entry.
  void start_after(Seq seq) {
    entries_.clear();
    first_ = seq + 1;
  }

 private:
  Seq first_ = 1;
  std::deque<Entry> entries_;
};

}  // namespace nacre::overlay
