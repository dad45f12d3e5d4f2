// SPDX-License-Identifier: Apache-2.0
#include "bulk/port.hpp"

namespace nacre::bulk {

void RecordQueue::serve(Port& port, std::function<void(Id origin, std::string_view bytes)> take) {
  port_ = &port;
  Port::Upward upward;
  upward.on_record = [&port, take = std::move(take)](Id origin, Numbered number, std::string_view bytes) {
    take(origin, bytes);
    port.taken(origin, number);
  };
  auto notify = [this] {
    if (unsent_.empty() && on_empty_) on_empty_();
  };
  upward.on_room = [this, notify] {
    send();
    notify();
  };
  upward.on_end = [this, notify](const Error&) {
    unsent_.clear();
    notify();
  };
  port.serve(channel_, std::move(upward));
}

void RecordQueue::put(std::string record) {
  if (port_ == nullptr) return;
  unsent_.push_back(std::move(record));
  send();
}

void RecordQueue::send() {
  while (!unsent_.empty()) {
    Result<bool> sent = port_->put(channel_, unsent_.front());
    if (!sent) return unsent_.clear();
    if (!*sent) return;
    unsent_.pop_front();
  }
}

}  // namespace nacre::bulk
