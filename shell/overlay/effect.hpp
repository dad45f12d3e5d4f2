// SPDX-License-Identifier: Apache-2.0
//
// What a node asks of its driver: done in order, before the node is called again.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "overlay/collective.hpp"
#include "overlay/message.hpp"
#include "overlay/options.hpp"
#include "value/link.hpp"

namespace nacre::overlay {

// Of a link that takes the place of another: unlinked() first, then linked().
using value::Link;
using value::Side;

struct Send {
  Link to;
  Message message;
};
struct SendEntry {  // Node::entry_message(seq)
  Link to;
  Seq seq = 0;
};
struct Dial {  // ends in linked({peer, up}) or, if it fails, in unlinked() of it
  Id peer = 0;
};
struct HangUp {  // after what was sent before; unlinked() is not called for it
  Link link;
};
struct HalfClose {  // nothing more is sent; what the peer says is still heard
  Link link;
};
struct Deliver {  // Node::entry(seq) holds from here on
  Seq seq = 0;
};
struct Released {  // the value of a collective that this member is in the scope of
  std::string name;
  Merge merge = Merge::max;
  Value value;
};
struct Publish {  // leader: the value that this entry promises, to be given to arrived() of all other members
  Seq entry = 0;
  Bytes value;
};
struct Unfit {  // what has arrived is not what was promised
  std::string name;
  std::string why;
};
struct Overflow {  // what came together of a collective is more than fits: nobody will get it
  std::string name;
  std::size_t size = 0;
};
struct Completed {  // leader: every member has applied this entry and those before
  Seq seq = 0;
};
struct Reported {  // leader: news of the tasks of all
  Idset started;
  std::vector<Record> exited;
};
struct Joined {  // a newcomer has become a member
  Seq view = 0;
};
struct Leave {};  // end the tasks (TERM, a grace, KILL), then call tasks_ended()
struct Die {      // end the tasks at once, then the shell
  std::string why;
};
struct Finished {};  // the node has nothing more to do: the shell may end once what was sent is out
struct Arm {         // call tick() at this time; takes the place of the one before
  Time at{};
};
struct Note {  // one line for the log
  std::string text;
};

using Effect = std::variant<Send, SendEntry, Dial, HangUp, HalfClose, Deliver, Released, Publish, Unfit, Overflow,
                            Completed, Reported, Joined, Leave, Die, Finished, Arm, Note>;

// Where the parts of a node put what they want done.
struct Outbox {
  static constexpr Time kNever = Time::max();

  std::uint64_t job = 0;
  std::uint64_t term = 0;
  Time now{};
  Time due = kNever;  // the next tick, or before
  std::vector<Effect> effects;

  template <typename E>
  void put(E effect) {
    effects.emplace_back(std::move(effect));
  }
  void send(Link to, Body body) { put(Send{to, Message{job, term, std::move(body)}}); }
  void wake(Time at) {
    if (at >= due) return;
    due = at;
    put(Arm{at});
  }
};

}  // namespace nacre::overlay
