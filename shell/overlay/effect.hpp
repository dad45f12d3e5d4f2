// SPDX-License-Identifier: Apache-2.0
//
// What a node asks its driver to do. The driver does it in order, before it calls the node again.
#pragma once

#include "overlay/collective.hpp"
#include "overlay/message.hpp"
#include "overlay/options.hpp"
#include "value/link.hpp"

namespace nacre::overlay {

// If a link replaces another, the driver calls unlinked() first, then linked().
using value::LinkName;
using value::Side;

struct Send {
  LinkName to;
  Message message;
};
struct SendEntry {  // Node::entry_message(seq)
  LinkName to;
  Seq seq = 0;
};
struct Dial {  // the driver answers with linked({peer, up}) or, if it fails, with unlinked() of that link
  Id peer = 0;
};
struct HangUp {  // once all that was sent is out; unlinked() is not called for it
  LinkName link;
};
struct HalfClose {  // nothing more is sent; what the peer sends is still received
  LinkName link;
};
struct Deliver {  // Node::entry(seq) returns it from now on
  Seq seq = 0;
};
struct Released {  // the value of a collective; this member is in its scope
  std::string name;
  Merge merge = Merge::max;
  Value value;
};
// leader: the value that this entry promises; the driver gives it to arrived() of all other members
struct Publish {
  Seq entry = 0;
  Bytes value;
};
struct Unfit {  // the value that has arrived is not the one that was promised
  std::string name;
  std::string why;
};
struct TooLarge {  // the merged value of a collective is above the limit: no member gets it
  std::string name;
  std::size_t size = 0;
};
struct Completed {  // leader: every member has applied this entry and those before
  Seq seq = 0;
};
struct Reported {  // leader: what has newly become known of all tasks
  Idset started;
  std::vector<TaskReport> exited;
};
struct Joined {  // a newcomer has become a member
  Seq view = 0;
};
struct Leave {};  // end the tasks (TERM, a grace, KILL), then call tasks_ended()
struct Die {      // end the tasks at once, then the shell
  std::string why;
};
struct Finished {   // the node has nothing more to do: the shell may end once all that was sent is out
  Idset lost = {};  // children that have been silent for too long, or are gone: they are not waited for
};
struct Arm {  // call tick() at this time; replaces the Arm before
  Time at{};
};
struct Silent {  // this child is suspected because nothing comes on its link
  Id peer = 0;
  std::string why;  // how long, and how long this node itself stood still
};
struct AskArbiter {  // whether this half may go on without these: the answer, if it may, is Node::arbiter_agrees()
  Idset others;
};
struct Note {  // one line for the shell's log
  std::string text;
};

using Effect = std::variant<Send, SendEntry, Dial, HangUp, HalfClose, Deliver, Released, Publish, Unfit, TooLarge,
                            Completed, Reported, Joined, Leave, Die, Finished, Arm, Silent, AskArbiter, Note>;

// The parts of a node put their effects here.
struct Outbox {
  static constexpr Time kNever = Time::max();

  static void postpone(Time& bound, Time gap) {
    if (bound != kNever) bound += gap;
  }

  std::uint64_t job = 0;
  std::uint64_t term = 0;
  Time now{};
  Time due = kNever;  // the next tick is due then, or earlier
  std::vector<Effect> effects;

  template <typename E>
  void put(E effect) {
    effects.emplace_back(std::move(effect));
  }
  void send(LinkName to, Body body) { put(Send{to, Message{job, term, std::move(body)}}); }
  void wake(Time at) {
    at = std::max(at, now);  // else the tick that comes would seem late
    if (at >= due) return;
    due = at;
    put(Arm{at});
  }
};

}  // namespace nacre::overlay
