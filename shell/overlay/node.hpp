// SPDX-License-Identifier: Apache-2.0
//
// One member of the overlay, without sockets, clock, threads or log. doc/protocol.md has the rules.
//
// When time has passed the driver first calls tick() with the time, then reports what has happened, then performs
// take_effects() in order. A node that has died or finished does nothing more.
#pragma once

#include <map>
#include <vector>

#include "base/result.hpp"
#include "overlay/campaigns.hpp"
#include "overlay/child_table.hpp"
#include "overlay/log.hpp"
#include "overlay/promises.hpp"
#include "overlay/pulse.hpp"
#include "overlay/reports.hpp"
#include "overlay/tree.hpp"
#include "overlay/uplink.hpp"

namespace nacre::overlay {

enum class Stage : std::uint8_t { joining, member, leaving, over };

class Node {
 public:
  explicit Node(OverlayOptions options);
  Node(const Node&) = delete;  // its parts refer to each other
  void tick(Time now);
  void linked(LinkName link);  // a down link: once its HELLO has named the peer, before step()
  void unlinked(LinkName link);
  void step(LinkName from, const Message& message);
  void wait_for_silent(milliseconds bound);  // counted from when each node was last received from
  void expect_end(milliseconds busy_bound);  // the job is to end: busy and absent children get less time
  // Enters a collective, once: the name is used once in a job. The part: a number for max and sum, else bytes.
  Result<void> enter(std::string name, Merge merge, const Own& part, Scope scope = {});
  void arrived(Seq entry, Bytes value);  // the value that an entry promises; it may come before the entry
  // Returns the number that the entry which answers has. EMSGSIZE, or EPIPE after the end.
  Result<std::uint64_t> request(RequestBody body);
  void started(const Idset& tasks);
  void exited(const Idset& tasks, Bytes record);
  void tasks_ended();      // after Leave
  void stays();            // after Finished, of one that has left: nobody is to wait for the end of its process
  // The process of a child of this node, or of one that leaves, has ended, or a newcomer will not come.
  void suspect(Id child);
  void leader_refuses();   // the leader's address refuses connections: the leader has ended
  void suspect_absent();   // all children that have never had a link to this node
  [[nodiscard]] std::vector<Effect> take_effects();
  [[nodiscard]] const Entry* entry(Seq seq) const { return log_.find(seq); }  // null: not here yet, or dropped
  [[nodiscard]] Message entry_message(Seq seq) const;
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] bool leads() const { return options_.self == 0; }
  [[nodiscard]] Seq applied() const { return log_.last(); }
  [[nodiscard]] Seq view() const { return view_; }
  [[nodiscard]] Seq complete() const { return complete_; }  // leader
  // Leader: of one that it has declared dead: its process has ended, or its link has; else it may be just silent.
  [[nodiscard]] bool has_ended(Id id) const { return ended_.contains(id); }
  [[nodiscard]] const Tree& tree() const { return tree_; }
  [[nodiscard]] const EntryLog& log() const { return log_; }
  [[nodiscard]] const std::vector<Collective>& collectives() const { return collectives_; }
  [[nodiscard]] const std::vector<OpenCampaign>& campaigns() const { return campaigns_.open(); }
  [[nodiscard]] std::vector<Request> pending() const { return requests_.pending(); }
  [[nodiscard]] std::optional<Id> feeder() const { return uplink_.current(); }
  [[nodiscard]] bool has_left(Id peer);  // it is gone once its down link ends
  [[nodiscard]] bool settled() const { return leads() || uplink_.at_parent(); }
  [[nodiscard]] const OverlayOptions& options() const { return options_; }

 private:
  void begin();  // node.cpp
  void arm();
  void stood_still(Time gap);
  [[nodiscard]] Time starving_at() const;
  void send_up_beat();
  void fence();
  void die(std::string why);
  void settle();                                 // at the end of every call
  void take(LinkName from, const Hello& hello);  // node_links.cpp
  void take(LinkName from, const Welcome& welcome);
  void take(LinkName from, const Beat& beat);
  void take_busy(const Idset& busy);
  void take(LinkName from, const Bye& bye);
  void admit(DownLink& down, const Hello& hello);
  void feed(DownLink& down);
  void join(const Snapshot& snapshot, const Welcome& welcome);
  void offer_again();
  void refuse(LinkName link, Farewell why, std::string text);
  void beat();
  bool pass_on(const Beat& beat);
  void forget(Seq stable);
  void lose(LinkName link);
  void take(LinkName from, const Entry& entry);  // node_log.cpp
  void accept(const Entry& entry);
  void apply(const Entry& entry, const View& change);
  void apply(const Entry& entry, const Release& piece);
  void apply(const Entry& entry, const Promise& promise);
  void apply(const Entry& entry, const Campaign& end);
  void apply(const Entry& entry, const End& end);
  void apply(const Entry& /*entry*/, const auto& /*body*/) {}  // other entries change nothing here
  void begin_leaving(const View& change);
  void settle_leaving();
  void settle_ending();
  void take(LinkName from, const Up& up);  // node_up.cpp
  void take(LinkName from, const Request& request);
  void take_part(std::size_t child, const Part& part);
  [[nodiscard]] Seq acked() const;
  Collective& collective(const std::string& name, Scope scope, Merge merge);
  [[nodiscard]] bool is_whole(const Collective& each) const;
  void note_silence(Id id);
  void flush_up();
  void flush_parts(LinkName parent);
  bool overflows(const Collective& each, std::size_t size);
  void send_up(LinkName to, Up up, bool with_standing);
  void append(RequestId request, EntryBody body);  // node_leader.cpp
  void accept_request(const Request& request);
  void answer(RequestId id, const Exec& body);
  void answer(RequestId id, const Shrink& body);
  void answer(RequestId id, const Grow& body);
  void lead();
  bool bury();
  bool seat_newcomers();
  void welcome_newcomers(const View& change);
  void note_complete();
  bool release_collectives();
  std::optional<Bytes> digest_of(const Bytes& encoded, Scope scope);
  void report();

  OverlayOptions options_;
  Outbox out_;
  Pulse pulse_;
  Tree tree_;
  EntryLog log_;
  Uplink uplink_;
  ChildTable child_table_;
  Lateness lateness_;
  Reports reports_;
  Requests requests_;
  Campaigns campaigns_;
  std::vector<Collective> collectives_;
  std::map<std::string, Seq> released_;  // until no member can offer a part of it
  Pieces incoming_;                      // the value that is being released
  Promises promises_;
  Stage stage_ = Stage::member;
  Seq view_ = 0, complete_ = 0;
  Seq wants_ack_ = 0;       // an acknowledgement of this entry does not wait for the next message
  Seq end_ = 0;             // the entry that ends the job
  Idset leaving_, doomed_;  // of open campaigns; children that leave with this node
  Idset exited_;            // leader: tasks whose end is known
  Idset ended_;             // leader: see has_ended()
  Idset processes_over_;    // of members that leave, or have left: they are gone once their links have ended
  std::uint64_t next_request_ = 1;
  Time sent_up_at_{}, leave_deadline_ = Outbox::kNever, fed_at_{};  // fed_at_: the leader's last beat to any
  bool begun_ = false, tasks_done_ = false;                         // begun: by the first tick
  Up sent_standing_{kNoEnd, 0, {}, {}, {}, {}, {}};                 // the last standing that the parent was sent
};

}  // namespace nacre::overlay
