// SPDX-License-Identifier: Apache-2.0
#include "bulk/store.hpp"

#include "base/invariant.hpp"

namespace nacre::bulk {

const BroadcastStore::Kept& BroadcastStore::add(Head head, std::string_view bytes) {
  bytes_ += kHead + bytes.size();
  if (head.kind == BulkKind::end) end(head.channel);
  return records_.emplace_back(Kept{head, std::string(bytes)});
}

void BroadcastStore::drop(Numbered stable) {
  for (; stable_ < stable && !records_.empty(); ++stable_) {
    INVARIANT(bytes_ >= kHead + records_.front().bytes.size());
    bytes_ -= kHead + records_.front().bytes.size();
    records_.pop_front();
  }
}

void BroadcastStore::start_after(Numbered stable) {
  records_.clear();
  bytes_ = 0;
  stable_ = stable;
}

}  // namespace nacre::bulk
