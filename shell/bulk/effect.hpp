// SPDX-License-Identifier: Apache-2.0
//
// What a node asks of its driver: done in order, before the node is called again.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bulk/options.hpp"
#include "value/link.hpp"

namespace nacre::bulk {

using value::Link;
using value::Side;

// When all the bytes have been taken, written() is to be called; until then the node asks for no other of this stream. The
// driver holds what is not yet taken; it goes when the link does.
struct Write {
  Link to;
  StreamId stream = 0;
  std::string bytes;
};
struct Grant {  // the peer may send so many bytes more
  Link to;
  StreamId stream = 0;
  std::size_t bytes = 0;
};
// Leader: what an origin has put, each origin's in order and each once. To be answered by taken(), at any time. No bytes:
// the channel has ended.
struct Deliver {
  Id origin = 0;
  Numbered number = 0;
  Channel channel = 0;
  std::string bytes;
};
// Everywhere, at the leader too: what it has broadcast. To be answered by heard(), until which the bytes stay. No bytes: the
// channel has ended.
struct Announce {
  Numbered number = 0;
  Channel channel = 0;
  std::string_view bytes;
};
struct Room {};           // what put() has refused would fit
struct BroadcastRoom {};  // what broadcast() has refused would fit
struct CutOff {};         // this shell is of the view no longer: nothing more is announced
struct Drained {};        // the leader has taken all that was put

using Effect = std::variant<Write, Grant, Deliver, Announce, Room, BroadcastRoom, CutOff, Drained>;

struct Outbox {
  std::vector<Effect> effects;

  template <typename E>
  void put(E effect) {
    effects.emplace_back(std::move(effect));
  }
  void grant(Link to, StreamId stream, std::size_t bytes) {
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
