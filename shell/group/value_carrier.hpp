// SPDX-License-Identifier: Apache-2.0
//
// The values of collectives that go beside the log, from the leader to all. They have a broadcast of their own, as
// the one of the job's input stops while tasks do not read. doc/protocol.md, "Values beside the log", has the
// records.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "bulk/port.hpp"
#include "overlay/collective.hpp"

namespace nacre::group {

class ValueCarrier {
 public:
  using Arrived = std::function<void(overlay::Seq entry, std::string value)>;

  // `port` has to outlive it. `arrived` is empty on the leader, which has the values.
  ValueCarrier(bulk::Port& port, Arrived arrived);
  ValueCarrier(const ValueCarrier&) = delete;
  ValueCarrier& operator=(const ValueCarrier&) = delete;

  void publish(overlay::Seq entry, std::string value);  // leader

 private:
  struct Outgoing {
    overlay::Seq entry = 0;
    std::string value;
    std::size_t at = 0;  // what is before it has been sent
  };

  void send_more();
  void take(std::string_view record);

  bulk::Port& port_;
  Arrived arrived_;
  std::deque<Outgoing> outgoing_;
  overlay::Pieces incoming_;
  overlay::Seq entry_ = 0;  // the entry whose value is coming in
};

}  // namespace nacre::group
