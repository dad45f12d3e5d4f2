// SPDX-License-Identifier: Apache-2.0
//
// One shell's part in bulk data: what any shell puts goes up to the leader, what the leader broadcasts goes down to all. No
// socket, clock or thread in it. doc/protocol.md, "Bulk", states the format and the rules.
//
// Up: each origin's records are delivered at the leader once and in order, as long as the origin lives and has a way
// there; of one that dies, a beginning. Down: who is of every view gets all, once and in order; a newcomer what is
// broadcast after it has come, and the end of each channel that had ended before; who is of the view no longer, a
// beginning. Whoever does not take what it is given stops, in the end, those who write; nothing else does.
//
// The driver says what happens, and does what take_effects() asks, in order. After up() or child_up() of a peer, calls and
// effects that name its link are about the new one.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "bulk/child.hpp"
#include "bulk/effect.hpp"
#include "bulk/origin_table.hpp"
#include "bulk/store.hpp"
#include "bulk/unacked_records.hpp"

namespace nacre::bulk {

class Node {
 public:
  explicit Node(const Options& options);  // whose limits pass check()
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // ---- what happens ----
  // The overlay's tree, at the beginning and whenever it is new: its number grows, and the leader is told before all
  // others. A broadcast record is dropped only when all members of a view have taken it.
  void view(ViewNumber number, const std::vector<Id>& children);
  // There is a link to who feeds this shell: its parent, or anyone else in the meantime. The one before is left.
  void up(Id peer);
  void no_up();
  // Somebody is fed from here, a child of the view or not. The link that it had is left.
  void child_up(Id peer);
  void child_gone(Id peer);
  // Bytes of a stream, in any pieces. After an error (EPROTO, ENOSPC) the link is to be ended, and counts as gone. What comes
  // over a link that is not there is of no effect.
  Result<void> received(Link from, StreamId stream, std::string_view bytes);
  void written(Link to, StreamId stream);  // all bytes of the last Write

  // ---- what the owner wants ----
  // 1 to Limits::record bytes to the leader. False: the window is full; Room says when not. EMSGSIZE, EINVAL: no bytes,
  // EPIPE: the channel has ended.
  Result<bool> put(Channel channel, std::string_view bytes);
  Result<void> end(Channel channel);  // once; it goes beyond the window if need be
  // Leader: the same, to all shells. EPERM: another. ENOSPC: kMaxBroadcastChannels have ended.
  Result<bool> broadcast(Channel channel, std::string_view bytes);
  Result<void> end_broadcast(Channel channel);
  // Leader: the owner has taken this origin's records up to here for good, and its shell may forget them.
  void taken(Id origin, Numbered number);
  void heard(Numbered number);  // the same of what was announced: the bytes are not looked at any more
  [[nodiscard]] std::vector<Effect> take_effects();

  // ---- how it stands: bytes that are held, with heads ----
  // At most Limits::window, and ends; at most Limits::broadcast, and ends; at most Limits::link.
  [[nodiscard]] std::size_t own_bytes() const { return unacked_.bytes(); }
  [[nodiscard]] std::size_t broadcast_bytes() const { return store_.bytes(); }
  [[nodiscard]] std::size_t child_bytes(Id peer) const;
  [[nodiscard]] bool leads() const { return options_.self == 0; }

 private:
  using Children = std::map<Id, Child>;
  // node.cpp
  void settle();
  [[nodiscard]] Traffic* traffic(Link link);
  void lose(Link link);
  [[nodiscard]] Child* child_of(const OriginTable::Route& route);
  Result<void> hear_notes(Link from, Traffic& at, Child* child, std::string_view bytes);
  Result<void> hear_records(Link from, Traffic& at, Child* child, std::string_view bytes);
  Result<void> count(std::size_t& credit, std::size_t bytes, const char* stream) const;
  void write(Link to, StreamId stream, std::string bytes);
  Result<void> check_put(const std::set<Channel>& ended, Channel channel, std::string_view bytes) const;
  // node_up.cpp
  void new_path();
  Result<void> take_record_up(Id peer, Child& child, const Record& record);
  bool deliver(OriginTable::Route from, const Record& record);
  void put_record(Channel channel, std::string_view bytes);
  Result<void> own_taken(Numbered number);
  void send_up();
  bool send_next_up(std::string& out);
  void pass_on(Id peer, Child& child, std::string& out);
  void tell_taken(Id origin, Numbered number);
  Result<void> take_note_taken(const Taken& note);
  // node_down.cpp
  Result<void> take_record_down(const Record& record);
  Result<void> start(const Record& record);
  void broadcast_record(Kind kind, Channel channel, std::string_view bytes);
  void cut_off();
  void drop(Numbered stable);
  [[nodiscard]] std::optional<Numbered> heard_by_all() const;
  void settle_heard();
  void feed(Id peer, Child& child);
  Result<void> take_note_up(Child& child, const Note& note);
  Result<void> take_note_down(const Note& note);
  void tell_up();
  void tell_down(Id peer, Child& child);

  Options options_;
  Outbox out_;
  UnackedRecords unacked_;
  OriginTable origins_;
  Store store_;
  std::optional<Uplink> up_;
  Children children_;
  std::optional<ViewNumber> view_;
  std::vector<Id> members_;   // the view's children
  std::optional<Id> last_;    // whose record went up last; none: this shell's
  std::uint64_t serial_ = 0;  // of links
  std::size_t wants_ = 0;     // bytes that put() has refused
  std::size_t wants_broadcast_ = 0;
  bool dirty_ = false;    // a record from below was sent up since the way was new
  bool started_;          // knows where the broadcast begins
  bool cut_off_ = false;  // the broadcast goes on without this shell
  Numbered first_ = 0;    // newcomer: up to here nothing is announced
  Numbered heard_ = 0;    // the owner has taken
  Numbered stable_ = 0;   // all shells have, as far as this one was told
};

}  // namespace nacre::bulk
