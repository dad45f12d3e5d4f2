// SPDX-License-Identifier: Apache-2.0
#include "bulk/child.hpp"

namespace nacre::bulk {

std::size_t BulkChild::take_first(std::string& out) {
  std::size_t size = queue.front().size();
  out += queue.front();
  queue.pop_front();
  queued -= size;
  return size;
}

BulkChild& BulkChildren::add(Id peer) {
  children_.erase(peer);
  return children_.emplace(peer, BulkChild(++serial_, limits_)).first->second;
}

BulkChild* BulkChildren::linked(Id peer) {
  auto found = children_.find(peer);
  return found == children_.end() || found->second.gone ? nullptr : &found->second;
}

BulkChild* BulkChildren::linked(Id peer, std::uint64_t serial) {
  BulkChild* child = linked(peer);
  return child != nullptr && child->serial == serial ? child : nullptr;
}

void BulkChildren::unlink(Id peer) {
  BulkChild* child = linked(peer);
  if (child == nullptr) return;
  child->gone = true;
  child->traffic.records = BulkRecordReader(Direction::up, limits_.record);
}

void BulkChildren::forget_done() {
  std::erase_if(children_, [](const auto& each) { return each.second.gone && each.second.queue.empty(); });
}

std::size_t BulkChildren::held_bytes(Id peer) const {
  auto found = children_.find(peer);
  return found == children_.end() ? 0 : found->second.queued + found->second.traffic.records.unread();
}

}  // namespace nacre::bulk
