// SPDX-License-Identifier: Apache-2.0
//
// The entries that a member has applied and that others may still need: the newest part of the job's log.
#pragma once

#include <deque>

#include "base/invariant.hpp"
#include "overlay/entry.hpp"

namespace nacre::overlay {

class EntryLog {
 public:
  // The number of the last entry; that entry may have been dropped.
  [[nodiscard]] Seq last() const { return first_ + entries_.size() - 1; }
  // The least number that is here; last() + 1 if the log is empty.
  [[nodiscard]] Seq first() const { return first_; }
  [[nodiscard]] const Entry* find(Seq seq) const {
    return seq >= first_ && seq <= last() ? &entries_[seq - first_] : nullptr;
  }

  void append(Entry entry) {
    INVARIANT(entry.seq == last() + 1);
    entries_.push_back(std::move(entry));
  }
  // Drops the entries up to this one.
  void drop(Seq stable) {
    for (; first_ <= stable && !entries_.empty(); ++first_) entries_.pop_front();
  }
  // Empties the log; the next entry is the one after this.
  void start_after(Seq seq) {
    entries_.clear();
    first_ = seq + 1;
  }

 private:
  Seq first_ = 1;
  std::deque<Entry> entries_;
};

}  // namespace nacre::overlay
