// SPDX-License-Identifier: Apache-2.0
#include "start_filter.hpp"

#include <algorithm>
#include <utility>

namespace nacre::pmix {

std::optional<PeerMessage> StartFilter::pass(PeerMessage message) {
  if (message.start == current_) return message;
  if (message.start >= next_) kept_.push_back(std::move(message));
  return std::nullopt;
}

void StartFilter::await(std::uint64_t start) {
  next_ = std::max(next_, start);
  std::erase_if(kept_, [this](const PeerMessage& each) { return each.start < next_; });
}

std::vector<PeerMessage> StartFilter::begin(std::uint64_t start) {
  await(start);
  current_ = start;
  next_ = start + 1;
  auto later = std::stable_partition(kept_.begin(), kept_.end(),
                                     [start](const PeerMessage& each) { return each.start == start; });
  std::vector<PeerMessage> out(std::make_move_iterator(kept_.begin()), std::make_move_iterator(later));
  kept_.erase(kept_.begin(), later);
  return out;
}

}  // namespace nacre::pmix
