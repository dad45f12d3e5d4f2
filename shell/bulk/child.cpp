// SPDX-License-Identifier: Apache-2.0
#include "bulk/child.hpp"

#include <algorithm>
#include <utility>

namespace nacre::bulk {

void BulkChild::enqueue(std::string_view record, bool is_answer) {
  queue.push_back({std::string(record), is_answer});
  queued += record.size();
  if (!is_answer) ++urgent;
}

std::size_t BulkChild::take_first(std::string& out) {
  const Queued& first = queue.front();
  std::size_t size = first.record.size();
  out += first.record;
  if (!first.is_answer) --urgent;
  queue.pop_front();
  queued -= size;
  return size;
}

void BulkChild::drop_queue() {
  queue.clear();
  queued = urgent = 0;
}

std::size_t BulkChild::take_owed(std::size_t most) {
  constexpr std::size_t kMuch = std::size_t{16} << 10;
  if (owed < kMuch && traffic.record_credit >= most / 2) return 0;
  traffic.record_credit += owed;
  return std::exchange(owed, 0);
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

void BulkChildren::set_view(ViewNumber number, const std::vector<Id>& members) {
  view_ = number;
  members_ = members;
}

std::optional<Numbered> BulkChildren::heard_by_all(Numbered own) {
  if (!view_) return std::nullopt;
  Numbered all = own;
  for (Id id : members_) {
    const BulkChild* child = linked(id);
    if (child == nullptr || !child->heard || child->heard->view != *view_) return std::nullopt;
    all = std::min(all, child->heard->number);
  }
  return all;
}

}  // namespace nacre::bulk
