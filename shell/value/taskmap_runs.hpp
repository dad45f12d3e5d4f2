// SPDX-License-Identifier: Apache-2.0
//
// A task map unrolled: the node of each task, from rank 0 to the last. Refers to the blocks, which must outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "value/taskmap.hpp"

namespace nacre::value {

class TaskRuns {
 public:
  explicit TaskRuns(const std::vector<Taskmap::Block>& blocks) : blocks_(blocks) { enter(); }

  [[nodiscard]] bool more() const { return block_ < blocks_.size(); }
  // Of the current run; only while there is more().
  [[nodiscard]] std::uint32_t node() const { return blocks_[block_].nodeid + index_; }
  [[nodiscard]] std::uint32_t count() const { return left_; }  // tasks left in it, at least 1

  // Advances by `count` tasks, at most count().
  void take(std::uint32_t count) {
    left_ -= count;
    if (left_ > 0) return;
    if (++index_ == blocks_[block_].nnodes) {
      index_ = 0;
      if (++round_ == blocks_[block_].repeat) {
        round_ = 0;
        ++block_;
      }
    }
    enter();
  }

 private:
  void enter() {
    if (more()) left_ = blocks_[block_].ppn;
  }

  const std::vector<Taskmap::Block>& blocks_;
  std::size_t block_ = 0;
  std::uint32_t round_ = 0;  // of the block's repeats
  std::uint32_t index_ = 0;  // of the block's nodes
  std::uint32_t left_ = 0;
};

}  // namespace nacre::value
