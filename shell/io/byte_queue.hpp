// SPDX-License-Identifier: Apache-2.0
//
// Bytes that wait, in blocks: neither adding bytes nor dropping the first ones moves those that stay.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nacre::io {

class ByteQueue {
 public:
  static constexpr std::size_t kBlock = std::size_t{256} << 10;  // bytes

  void add(std::string_view bytes);
  void clear();
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  // The first blocks, as many as `out` has room for: returns those of its elements that are set. They are valid
  // until the next call of another member.
  [[nodiscard]] std::span<std::string_view> first(std::span<std::string_view> out) const;
  void drop(std::size_t bytes);  // the first ones

 private:
  static constexpr std::size_t kMostSpare = 4;  // blocks that are kept for later

  std::deque<std::string> blocks_;
  std::vector<std::string> spare_;  // empty, with the room of a block
  std::size_t begin_ = 0;           // of the first block's bytes that are left
  std::size_t size_ = 0;
};

}  // namespace nacre::io
