// SPDX-License-Identifier: Apache-2.0
//
// What a node asks its driver to do. The driver does it in order, before it calls the node again.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bulk/options.hpp"
#include "value/link.hpp"

namespace nacre::bulk {

using value::LinkName;
using value::Side;

// The driver calls written() when it has taken all the bytes; until then the node asks for no other Write on this
// stream. The driver keeps what it has not taken; it drops it when the link ends.
struct Write {
  LinkName to;
  StreamId stream = 0;
  std::string bytes;
};
struct Grant {  // the peer may send so many more bytes
  LinkName to;
  StreamId stream = 0;
  std::size_t bytes = 0;
};
// Leader: a record of an origin, each origin's in order and each once. The owner answers with taken(), at any time.
// No bytes: the channel has ended.
struct DeliverRecord {
  Id origin = 0;
  Numbered number = 0;
  Channel channel = 0;
  std::string bytes;
};
// On every shell, the leader included: a record that the leader has broadcast. The bytes stay until the owner
// answers with consumed(). No bytes: the channel has ended.
struct Announce {
  Numbered number = 0;
  Channel channel = 0;
  std::string_view bytes;
};
struct Room {};           // there is room for what put() has refused
struct BroadcastRoom {};  // there is room for what broadcast() has refused
struct CutOff {};         // this shell is no longer of the view: nothing more is announced
struct Drained {};        // the leader has taken all that was put
struct WaitForMore {};    // answers wait for others: the driver calls waited() after a while

using BulkEffect =
    std::variant<Write, Grant, DeliverRecord, Announce, Room, BroadcastRoom, CutOff, Drained, WaitForMore>;

struct BulkOutbox {
  std::vector<BulkEffect> effects;

  template <typename E>
  void put(E effect) {
    effects.emplace_back(std::move(effect));
  }
  void grant(LinkName to, StreamId stream, std::size_t bytes) {
    if (bytes == 0) return;
    Grant* last = effects.empty() ? nullptr : std::get_if<Grant>(&effects.back());
    if (last != nullptr && last->to == to && last->stream == stream) {
      last->bytes += bytes;
    } else {
      put(Grant{to, stream, bytes});
    }
  }
};

}  // namespace nacre::bulk
