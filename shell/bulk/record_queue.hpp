// SPDX-License-Identifier: Apache-2.0
//
// A channel of records to the leader, whose user does not wait for room: what has none is kept, in order.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "bulk/port.hpp"

namespace nacre::bulk {

class RecordQueue {
 public:
  explicit RecordQueue(Channel channel) : channel_(channel) {}
  RecordQueue(const RecordQueue&) = delete;
  RecordQueue& operator=(const RecordQueue&) = delete;

  // Serves the channel. Leader: each record is passed to `take`, and has been taken when that returns; no bytes:
  // the origin has ended the channel. The port has to outlive this object's use.
  void serve(Port& port, std::function<void(Id origin, std::string_view bytes)> take);
  // Sends 1 to kMaxRecord bytes now, or once there is room. Dropped, with all that waits, if the channel is not
  // served, the job is over, or this shell is cut off.
  void put(std::string record);
  [[nodiscard]] std::size_t waiting() const { return unsent_.size(); }  // records
  // `act` is called each time that none waits any more after some had to.
  void when_empty(std::function<void()> act) { on_empty_ = std::move(act); }

 private:
  void send();

  Channel channel_;
  Port* port_ = nullptr;
  std::deque<std::string> unsent_;
  std::function<void()> on_empty_;
};

}  // namespace nacre::bulk
