// SPDX-License-Identifier: Apache-2.0
//
// The messages between the shells of a job. doc/protocol.md describes when each is sent, and in which direction.
#pragma once

#include "overlay/entry.hpp"

namespace nacre::overlay {

enum class Standing : std::uint8_t { joining, member, leaving };

struct Hello {
  Id from = 0;
  Standing standing = Standing::member;
  Seq applied = 0;
  Seq view = 0;
  std::string address;         // where others can dial it; only for a joining member
  Idset suspects;              // parents to which it has lost its link
  std::uint64_t log_term = 0;  // of its last entry
  bool operator==(const Hello&) const = default;
};

// A member that does not sit where the first view had it.
struct Seat {
  std::uint32_t slot = 0;
  Id id = 0;
  Seq joined = 0;
  std::string address;
  bool operator==(const Seat&) const = default;
};
// A shrink or grow that has not ended, as the log has it.
struct OpenView {
  RequestId request;
  bool grow = false;
  Seq view = 0;
  Idset targets;
  bool operator==(const OpenView&) const = default;
};
// A view of which more than half is needed to choose a leader.
struct Quorum {
  Seq view = 0;
  Idset members;
  bool operator==(const Quorum&) const = default;
};
// All that a newcomer needs to know of the log so far.
struct Snapshot {
  std::uint32_t first = 0;  // members of the first view
  std::uint32_t arity = 0;
  std::uint32_t size = 0;  // members
  std::vector<Seat> seats;
  Idset leaving;                    // of open campaigns
  std::vector<RequestId> answered;  // the last one of each origin
  std::vector<OpenView> open = {};
  std::vector<Quorum> quorums = {};
  bool operator==(const Snapshot&) const = default;
};

struct Welcome {
  Seq applied = 0;
  Seq view = 0;
  std::optional<Snapshot> snapshot;
  std::uint64_t log_term = 0;  // of the entry `applied`
  bool operator==(const Welcome&) const = default;
};

// A piece of a subtree's merged part in a collective.
struct Part {
  std::string name;
  Scope scope;
  Merge merge = Merge::max;
  std::uint64_t at = 0;
  std::uint64_t total = 0;
  Bytes data;
  bool operator==(const Part&) const = default;
};
struct TaskReport {  // how these tasks have ended
  Idset tasks;
  Bytes what;
  bool operator==(const TaskReport&) const = default;
};
struct Up {
  Seq view = 0;
  Seq acked = 0;
  Idset suspects;
  Idset gone;
  Idset started;
  std::vector<TaskReport> exited;
  std::vector<Part> parts;
  Idset ended = {};  // members whose process or link has ended: if they are suspected, they are not just silent
  bool operator==(const Up&) const = default;
};

struct Beat {
  std::uint64_t number = 0;  // down: the leader's; up: the last one received
  Seq stable = 0;            // no member needs this entry or an earlier one; 0 on the way up
  Idset busy;  // of the sender and the members below it, those that run a handler of a plugin and do nothing else
  Seq complete = 0;  // all members have this entry; 0 on the way up
  bool operator==(const Beat&) const = default;
};

struct Request {
  RequestId id;
  RequestBody body;
  bool operator==(const Request&) const = default;
};

enum class Farewell : std::uint8_t {
  moved,     // another link has taken its place
  removed,   // the receiver is no member
  gone,      // the sender leaves, as the log has it
  finished,  // the job has ended
  refused,   // the sender cannot take what it received
};
struct Bye {
  Farewell why = Farewell::moved;
  std::string text;
  bool operator==(const Bye&) const = default;
};

// The leader is lost: this member asks to lead, or on trial asks whether the others would follow it. The claim goes
// down, to all that the member feeds.
struct Claim {
  std::uint64_t ballot = 0;  // the term in which it will lead
  Id candidate = 0;
  Seq applied = 0;  // its last entry, and the term of that
  std::uint64_t log_term = 0;
  bool trial = false;  // an answer promises nothing
  bool sure = false;   // the process of the leader has ended: it is not just silent
  bool operator==(const Claim&) const = default;
};
struct Vote {  // the answer: these follow the candidate in that term, and no other
  std::uint64_t ballot = 0;
  Id candidate = 0;
  bool trial = false;
  Idset voters;
  bool operator==(const Vote&) const = default;
};

using Body = std::variant<Hello, Welcome, Entry, Up, Beat, Request, Bye, Claim, Vote>;

struct Message {
  std::uint64_t job = 0;
  // Of an entry: the term in which it was appended; otherwise the latest term that the sender has promised to
  // follow.
  std::uint64_t term = 0;
  Body body;
  bool operator==(const Message&) const = default;
};

}  // namespace nacre::overlay
