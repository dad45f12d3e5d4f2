// SPDX-License-Identifier: Apache-2.0
//
// One shell's part in bulk data: what any shell puts goes up to the leader, what the leader broadcasts goes down to
// all. It has no sockets, clock or threads. doc/protocol.md, "Bulk", has the format and the rules.
//
// Up: the leader delivers each origin's records once and in order, as long as the origin lives and has a way to the
// leader; of an origin that dies, the first ones. Down: a shell that is in every view gets all, once and in order.
// A newcomer gets what is broadcast after it has come, and the end of each channel that ended before. A shell that
// leaves the view gets the first records. If an owner does not take what it is given, the writers stop in the end;
// they stop for no other reason.
//
// The driver reports what happens, and performs take_effects() in order. After up() or child_up() of a peer, calls
// and effects that name its link mean the new one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "bulk/broadcast_records.hpp"
#include "bulk/child.hpp"
#include "bulk/effect.hpp"
#include "bulk/options.hpp"
#include "bulk/upward_records.hpp"
#include "bulk/wire.hpp"

namespace nacre::bulk {

class BulkNode {
 public:
  explicit BulkNode(const BulkOptions& options);  // `options.limits` pass check()
  BulkNode(const BulkNode&) = delete;
  BulkNode& operator=(const BulkNode&) = delete;

  // ---- what happens ----
  // The overlay's tree, at the beginning and at each change. Its number grows. The leader is given it before all
  // others. A broadcast record is dropped only when all members of a view have taken it.
  void view(ViewNumber number, const std::vector<Id>& children);
  // There is a link to the shell that feeds this one: its parent, or another in the meantime. It replaces the one
  // before.
  void up(Id peer);
  void no_up();
  // There is a link to a shell that this one feeds, a child of the view or not. It replaces that shell's link
  // before.
  void child_up(Id peer);
  void child_gone(Id peer);
  // Bytes of a stream, in any pieces. After an error (EPROTO, ENOSPC) the driver has to end the link, and the node
  // takes it as ended. Bytes of a link that is not there have no effect.
  Result<void> received(LinkName from, StreamId stream, std::string_view bytes);
  void written(LinkName to, StreamId stream);  // all bytes of the last Write
  void waited();                               // the time for which WaitForMore was to wait is over

  // ---- what the owner wants ----
  // Sends 1 to Limits::record bytes to the leader. False: the window is full; Room comes when there is room.
  // EMSGSIZE, EINVAL: no bytes, EPIPE: the channel has ended.
  Result<bool> put(Channel channel, std::string_view bytes);
  Result<void> end(Channel channel);  // once; it may exceed the window
  // Leader: the same, to all shells. EPERM: this is not the leader. ENOSPC: kMaxBroadcastChannels have ended.
  Result<bool> broadcast(Channel channel, std::string_view bytes);
  Result<void> end_broadcast(Channel channel);
  // Leader: the owner has taken this origin's records up to here for good; the origin may forget them.
  void taken(Id origin, Numbered number);
  void consumed(Numbered number);  // the owner needs the announced bytes up to here no longer
  [[nodiscard]] std::vector<BulkEffect> take_effects();

  // ---- state: bytes that are held, with heads ----
  // At most Limits::window and the ends; at most Limits::broadcast and the ends; at most Limits::link.
  [[nodiscard]] std::size_t own_bytes() const { return upward_.bytes(); }
  [[nodiscard]] std::size_t broadcast_bytes() const { return broadcast_.bytes(); }
  [[nodiscard]] std::size_t child_bytes(Id peer) const { return children_.held_bytes(peer); }
  [[nodiscard]] bool leads() const { return options_.leads(); }

 private:
  void settle();
  std::optional<Numbered> consumed_by_all();
  [[nodiscard]] Traffic* traffic(LinkName link);
  void lose(LinkName link);
  Result<void> read_notes(LinkName from, Traffic& at, BulkChild* child, std::string_view bytes);
  Result<void> read_records(LinkName from, Traffic& at, BulkChild* child, std::string_view bytes);
  Result<void> take_note_up(BulkChild& child, const Note& note);
  Result<void> take_note_down(const Note& note);
  void send_up();
  void notify_up();
  void notify_down(Id peer, BulkChild& child);
  void feed(Id peer, BulkChild& child);
  void write(LinkName to, StreamId stream, std::string bytes);

  BulkOptions options_;
  BulkOutbox out_;
  BulkChildren children_;
  BroadcastRecords broadcast_;
  UpwardRecords upward_;
  std::optional<BulkUplink> up_;
};

}  // namespace nacre::bulk
