// SPDX-License-Identifier: Apache-2.0
#include "io/byte_queue.hpp"

#include <algorithm>
#include <utility>

namespace nacre::io {

void ByteQueue::add(std::string_view bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (blocks_.empty() || blocks_.back().size() == kBlock) {
      std::string& block = blocks_.emplace_back();
      if (!spare_.empty()) {
        block = std::move(spare_.back());
        spare_.pop_back();
      }
      block.reserve(kBlock);
    }
    std::size_t part = std::min(bytes.size(), kBlock - blocks_.back().size());
    blocks_.back().append(bytes.substr(0, part));
    bytes.remove_prefix(part);
  }
}

void ByteQueue::clear() {
  blocks_.clear();
  spare_.clear();
  begin_ = size_ = 0;
}

std::span<std::string_view> ByteQueue::first(std::span<std::string_view> out) const {
  std::size_t count = std::min(out.size(), blocks_.size());
  for (std::size_t i = 0; i < count; ++i) out[i] = std::string_view(blocks_[i]).substr(i == 0 ? begin_ : 0);
  return out.first(count);
}

void ByteQueue::drop(std::size_t bytes) {
  bytes = std::min(bytes, size_);
  size_ -= bytes;
  begin_ += bytes;
  while (!blocks_.empty() && begin_ >= blocks_.front().size()) {
    std::string& block = blocks_.front();
    begin_ -= block.size();
    block.clear();
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(block));
    blocks_.pop_front();
  }
}

}  // namespace nacre::io
