// SPDX-License-Identifier: Apache-2.0
//
// Things that wait, each named by a small number until it is taken.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace nacre::sim {

template <typename T>
class Pool {
 public:
  std::uint32_t put(T thing) {
    if (free_.empty()) {
      things_.push_back(std::move(thing));
      return static_cast<std::uint32_t>(things_.size() - 1);
    }
    std::uint32_t index = free_.back();
    free_.pop_back();
    things_[index] = std::move(thing);
    return index;
  }
  T take(std::uint32_t index) {
    free_.push_back(index);
    return std::exchange(things_[index], {});
  }

 private:
  std::vector<T> things_;
  std::vector<std::uint32_t> free_;
};

}  // namespace nacre::sim
