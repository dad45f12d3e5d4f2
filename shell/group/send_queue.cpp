// SPDX-License-Identifier: Apache-2.0
#include "group/send_queue.hpp"

namespace nacre::group {

Result<void> SendQueue::send(overlay::LinkName to, std::string frame) { return add(to, std::move(frame)); }

Result<void> SendQueue::send_entry(overlay::LinkName to, overlay::Seq seq) { return add(to, seq); }

Result<void> SendQueue::half_close(overlay::LinkName link) { return add(link, Close()); }

Result<void> SendQueue::add(overlay::LinkName link, Item item) {
  auto found = waiting_.find(link);
  if (found == waiting_.end() && links_.has_room(link)) return put(link, item);
  waiting_[link].push_back(std::move(item));
  return {};
}

Result<void> SendQueue::put(overlay::LinkName link, const Item& item) {
  if (const auto* frame = std::get_if<std::string>(&item)) return links_.send(link, *frame);
  if (const auto* seq = std::get_if<overlay::Seq>(&item)) {
    const std::string* frame = links_.frame_of(*seq);
    return frame != nullptr ? links_.send(link, *frame) : Result<void>();
  }
  links_.half_close(link);
  return {};
}

Result<void> SendQueue::go_on(overlay::LinkName link) { return drain(link, true); }

void SendQueue::flush(overlay::LinkName link) {
  static_cast<void>(drain(link, false));
  forget(link);
}

void SendQueue::flush_all() {
  while (!waiting_.empty()) flush(waiting_.begin()->first);
}

Result<void> SendQueue::drain(overlay::LinkName link, bool needs_room) {
  auto found = waiting_.find(link);
  if (found == waiting_.end()) return {};
  std::deque<Item>& items = found->second;
  for (; !items.empty() && (!needs_room || links_.has_room(link)); items.pop_front()) {
    CHECK_OK(put(link, items.front()));
  }
  if (items.empty()) waiting_.erase(found);
  return {};
}

}  // namespace nacre::group
