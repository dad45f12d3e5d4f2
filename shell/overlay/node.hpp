// SPDX-License-Identifier: Apache-2.0
//
// One member of the overlay, without sockets, clock, threads or log. doc/protocol.md has the rules.
//
// When time has passed the driver first calls tick() with the time, then reports what has happened, then performs
// take_effects() in order. A node that has died or finished does nothing more.
#pragma once

#include "base/invariant.hpp"
#include "overlay/child_table.hpp"
#include "overlay/effect.hpp"
#include "overlay/election.hpp"
#include "overlay/entry.hpp"
#include "overlay/options.hpp"
#include "overlay/tree.hpp"
#include "overlay/uplink.hpp"

namespace nacre::overlay {

// What only the leader keeps: the shrinks and grows that have not ended, and which requests it has taken.

inline constexpr std::uint64_t kMaxNewcomers = 4096;  // of one grow

struct OpenCampaign {
  RequestId request;
  bool grow = false;
  Seq view = 0;  // 0: a grow whose newcomers have not come yet
  Seq hold = 0;  // the leaving members may still need later entries
  Idset targets;
  Time deadline{};
  Idset missing = {};  // of a grow: members that will not come
};

class Campaigns {
 public:
  // False: this request was taken before.
  bool take(RequestId id) { return taken_.advance(id); }

  void open(OpenCampaign campaign) { open_.push_back(std::move(campaign)); }
  [[nodiscard]] std::vector<OpenCampaign>& open() { return open_; }
  [[nodiscard]] const std::vector<OpenCampaign>& open() const { return open_; }
  // Whether a grow waits for this newcomer.
  [[nodiscard]] bool awaits(Id id) const;
  void give_up(Id id);  // no grow waits for it any more

  // For members that do not lead: notes the open ones of the log, in case the member comes to lead.
  void follow(const Entry& entry, const View& change);
  void follow(const Entry& entry, const Campaign& /*end*/);
  void follow(const OpenView& open);
  void wait_until(Time deadline);  // this member leads from now on: every open one ends by then at the latest
  [[nodiscard]] std::vector<OpenView> views() const;

  // Closes a campaign that is over, if there is one, and returns its end. `complete`: all members have applied the
  // entries up to this one.
  std::optional<std::pair<RequestId, Campaign>> over(Time now, Seq complete, const Idset& gone, const Tree& tree);
  // The last entry that may be dropped.
  [[nodiscard]] Seq stable(Seq complete) const;
  void excuse(Time gap);                   // moves all bounds by this
  [[nodiscard]] Time due(Time now) const;  // when the next bound passes

 private:
  friend struct NodeState;
  std::vector<OpenCampaign> open_;
  LastRequests taken_;
};

// The members of the map that do not exist, the first kMaxNamed of them.
[[nodiscard]] Idset not_members(const std::vector<RankShare>& map, const Tree& tree);

// Gives the shares of members that do not exist to the other members of the map, in turn; to the leader if there
// are none.
[[nodiscard]] std::vector<RankShare> remap(const std::vector<RankShare>& map, const Tree& tree);

// The entries that a member has applied and that others may still need: the newest part of the job's log.
class EntryLog {
 public:
  // The number of the last entry; that entry may have been dropped.
  [[nodiscard]] Seq last() const { return first_ + entries_.size() - 1; }
  // The least number that is here; last() + 1 if the log is empty.
  [[nodiscard]] Seq first() const { return first_; }
  [[nodiscard]] const Entry* find(Seq seq) const {
    return seq >= first_ && seq <= last() ? &entries_[seq - first_] : nullptr;
  }
  // The term in which this entry was appended.
  [[nodiscard]] std::uint64_t term_of(Seq seq) const;
  [[nodiscard]] std::uint64_t last_term() const { return terms_.back().second; }
  // Whether a log whose last entry is this one, of this term, has entries that never were in this log.
  [[nodiscard]] bool parts_from(std::uint64_t term, Seq seq) const;

  void append(Entry entry, std::uint64_t term) {
    INVARIANT(entry.seq == last() + 1);
    INVARIANT(term >= last_term());
    if (term > last_term()) terms_.emplace_back(entry.seq, term);
    entries_.push_back(std::move(entry));
  }
  // Drops the entries up to this one.
  void drop(Seq stable) {
    for (; first_ <= stable && !entries_.empty(); ++first_) entries_.pop_front();
  }
  // Empties the log; the next entry is the one after this, whose term this is.
  void start_after(Seq seq, std::uint64_t term) {
    entries_.clear();
    first_ = seq + 1;
    terms_ = {{seq, term}};
  }

 private:
  friend struct NodeState;
  Seq first_ = 1;
  std::deque<Entry> entries_;
  std::vector<std::pair<Seq, std::uint64_t>> terms_{{0, 0}};  // each term's first entry
};

// Values that come beside the log: entries' promises, and values that have arrived, in either order.
class Promises {
 public:
  void promised(Seq entry, Promise promise) { promises_.emplace(entry, std::move(promise)); }
  void arrived(Seq entry, Bytes value) { values_[entry] = std::move(value); }
  // Releases the values that have arrived and are promised. Drops values that no entry up to `applied` has promised
  // to this member.
  void settle(Seq applied, const OverlayOptions& options, Outbox& out);
  [[nodiscard]] bool empty() const { return promises_.empty() && values_.empty(); }

 private:
  friend struct NodeState;
  std::map<Seq, Promise> promises_;
  std::map<Seq, Bytes> values_;
};

// Beats: how the leader numbers them, and what the others learn from the numbers (rule 10 of doc/protocol.md).
class Pulse {
 public:
  explicit Pulse(const OverlayOptions& options) : options_(options) {}

  void begin(Time now) { made_ = now; }
  // The number of the leader's next beat.
  std::uint64_t make(Time now);
  // False: an old beat.
  bool receive(std::uint64_t number, Time now);
  // The feeder lives, but passes no beats on.
  void feeder_lives(Time now) { lives_ = now; }
  // The node was stopped until now. It gets more time, but only once between two beats.
  void wake(Time now);

  // The number of the last beat; 0: none yet.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // When the last beat was made, as far as this node knows.
  [[nodiscard]] Time made() const { return made_; }
  // When a node at this depth of the tree has waited too long for a beat, and dials the leader.
  [[nodiscard]] Time starving_at(std::uint32_t depth) const;
  // When the node has to end itself.
  [[nodiscard]] Time fence_at() const;
  // When the leader counts as lost for a node at this depth, which has dialled it by then.
  [[nodiscard]] Time lost_at(std::uint32_t depth) const;
  // Another member, with another clock, leads from now on.
  void follow(Time now);

 private:
  friend struct NodeState;
  const OverlayOptions& options_;
  std::uint64_t number_ = 0;
  Time made_{};
  Time least_delay_ = Time::max();  // the least time between a beat's number (the leader's clock) and its arrival
  Time woke_{};
  Time lives_{};
};

inline constexpr Time kLongAgo = -std::chrono::hours(1);

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
  // Enters a collective, once: a name is used once in a job. The part is a number for max and sum, bytes for the
  // others.
  Result<void> enter(std::string name, Merge merge, const Own& part, Scope scope = {});
  void arrived(Seq entry, Bytes value);  // the value that an entry promises; it may come before that entry
  // Returns the number that the answering entry will have. EMSGSIZE, or EPIPE after the end.
  Result<std::uint64_t> request(RequestBody body);
  void started(const Idset& tasks);
  void exited(const Idset& tasks, Bytes record);
  void tasks_ended();  // after Leave
  void stays();        // after Finished, in a node that has left: nobody has to wait for the end of its process
  // From now on this member takes part in the choice of another leader; all do so before anything depends on it.
  // `has_arbiter`, `leader_silences`: of the options.
  void hand_over(bool has_arbiter = false, std::uint32_t leader_silences = 1) {
    options_.hands_over = true;
    options_.has_arbiter = has_arbiter;
    options_.leader_silences = leader_silences;
  }
  // The arbiter has told nobody else, and will tell none of these, that they may go on.
  void arbiter_agrees(const Idset& others);
  // Of one that has come to lead and cannot: it ends, and the others choose another one.
  void resign() { die("it came to lead while it joined the job"); }
  // The process of a child of this node, or of one that leaves, has ended, or a newcomer will not come.
  void suspect(Id child);
  void leader_refuses();  // the leader's address refuses connections: the leader has ended
  void suspect_absent();  // all children that have never had a link to this node
  [[nodiscard]] std::vector<Effect> take_effects() { return std::exchange(out_.effects, {}); }
  [[nodiscard]] const Entry* entry(Seq seq) const { return log_.find(seq); }  // null: not here yet, or dropped
  [[nodiscard]] Message entry_message(Seq seq) const;
  [[nodiscard]] Stage stage() const { return stage_; }
  [[nodiscard]] bool leads() const { return stage_ != Stage::joining && tree_.leader() == options_.self; }
  [[nodiscard]] std::uint64_t term() const { return out_.term; }
  [[nodiscard]] Seq applied() const { return log_.last(); }
  [[nodiscard]] Seq view() const { return view_; }
  [[nodiscard]] Seq complete() const { return complete_; }  // leader
  // No timer has run for so long that this node's process must have stood still; then call tick() first.
  [[nodiscard]] bool is_late(Time now) const { return now - options_.beat_interval > out_.due; }
  // For a leader that hands over: other members know entries whose effects its own owner does not have yet. Also
  // true once it has stood still for so long that the others may have another leader.
  [[nodiscard]] bool withholds() const { return !withheld_.empty(); }
  // Leader: whether a member that it has declared dead, or that was to leave, has really ended: its process or its
  // link has. Otherwise it may be just silent.
  [[nodiscard]] bool has_ended(Id id) const { return ended_.contains(id); }
  [[nodiscard]] const Tree& tree() const { return tree_; }
  [[nodiscard]] const EntryLog& log() const { return log_; }
  [[nodiscard]] const std::vector<Collective>& collectives() const { return collectives_; }
  [[nodiscard]] const std::vector<OpenCampaign>& campaigns() const { return campaigns_.open(); }
  [[nodiscard]] std::vector<Request> pending() const { return requests_.pending(); }
  [[nodiscard]] std::optional<Id> feeder() const { return uplink_.current(); }
  [[nodiscard]] bool has_left(Id peer);  // the peer is gone once its down link ends
  [[nodiscard]] bool settled() const { return leads() || uplink_.at_parent(); }
  [[nodiscard]] const OverlayOptions& options() const { return options_; }

 private:
  friend struct NodeState;  // of t/sim, as in the parts: copies a node, and writes all that it knows
  // Begin and end.
  void begin();
  void arm();
  void stood_still(Time gap);
  [[nodiscard]] Time starving_at() const { return pulse_.starving_at(tree_.depth(options_.self)); }
  [[nodiscard]] Time lost_at() const { return pulse_.lost_at(tree_.depth(options_.self)); }
  void send_up_beat();
  void fence();
  void die(std::string why);
  bool is_of_another(LinkName from, const Message& message);
  void settle();  // at the end of every call
  // Links to others.
  void take(LinkName from, const Hello& hello);
  void take(LinkName from, const Welcome& welcome);
  void take(LinkName from, const Beat& beat);
  void take_busy(const Idset& busy);
  void take(LinkName from, const Bye& bye);
  void admit(DownLink& down, const Hello& hello);
  void send_away(Id peer) { refuse({peer, Side::down}, Farewell::removed, "the job goes on without this member"); }
  void feed_all();
  void feed(DownLink& down);
  void join(const Snapshot& snapshot, const Welcome& welcome);
  void offer_again();
  void refuse(LinkName link, Farewell why, std::string text);
  void beat();
  void send_beat();  // if it is alone: the owner may still take what else is in the log
  bool pass_on(const Beat& beat);
  void forget(Seq stable);
  [[nodiscard]] bool has_let_go(LinkName link) const;
  void lose(LinkName link);
  // The log.
  void take(LinkName from, const Entry& entry, std::uint64_t term);
  void accept(const Entry& entry, std::uint64_t term);
  void tell(Seq until, Effect effect);
  void apply(const Entry& entry, const View& change);
  void apply(const Entry& entry, const Release& piece);
  void apply(const Entry& entry, const Promise& promise);
  void apply(const Entry& entry, const Campaign& end);
  void apply(const Entry& entry, const End& /*end*/) { end_ = entry.seq; }
  void apply(const Entry& /*entry*/, const auto& /*body*/) {}  // other entries change nothing here
  void begin_leaving(const View& change);
  void settle_leaving();
  void settle_ending();
  // What goes up.
  void take(LinkName from, const Up& up);
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
  // Without a leader: election.cpp.
  void watch_leader();
  void begin_election();
  void found_leader();
  [[nodiscard]] std::vector<Id> above_without_leader() const;
  void claim(bool trial, std::uint64_t ballot);
  void promise(std::uint64_t term, std::optional<Id> to);
  void spread(const Claim& claim);
  bool count_votes(bool is_due);
  void take(LinkName from, const Claim& claim);
  void take(LinkName from, const Vote& vote);
  void consider_vote();
  void send_votes();
  void feed_up(LinkName feeder, Seq behind);
  void take_from_below(const Entry& entry, std::uint64_t term);
  void take_over();
  [[nodiscard]] bool has_arbiter() const { return options_.has_arbiter && tree_.leader() == 0; }
  void ask_arbiter(const Idset& others);
  // The leader only.
  [[nodiscard]] bool may_lead(const Idset& suspects);
  [[nodiscard]] bool reaches_enough(const Idset& suspects);
  void append(RequestId request, EntryBody body);
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
  std::map<std::string, Seq> released_;  // until no member can offer a part of them
  Pieces incoming_;                      // the value that is being released
  Promises promises_;
  Quorums quorums_;
  Election election_;
  Withheld withheld_;
  Idset asked_, agreed_;     // members about whom the arbiter was asked, and without whom it lets this half go on
  bool takes_over_ = false;  // appends its first entry
  std::uint64_t feeder_term_ = 0;        // the latest that the feeder has named
  Time cut_off_since_ = Outbox::kNever;  // leader: since when it reaches less than half
  Time cut_off_until_ = Outbox::kNever;
  Time reached_since_ = Outbox::kNever;  // since when it reaches half again, while it is cut off
  Time stood_still_at_ = kLongAgo;
  bool is_in_doubt_ = false;  // leader: it stood still for long
  Stage stage_ = Stage::member;
  Seq view_ = 0, complete_ = 0;
  Seq wants_ack_ = 0;       // an acknowledgement of this entry does not wait for the next message
  Seq end_ = 0;             // the entry that ends the job
  Idset leaving_, doomed_;  // of open campaigns; children that leave with this node
  Idset exited_;            // leader: tasks whose end is known
  Idset ended_;             // leader: see has_ended()
  Idset processes_over_;    // of members that leave, or have left: they are gone once their links have ended
  std::uint64_t next_request_ = 1;
  Time sent_up_at_{}, leave_deadline_ = Outbox::kNever, fed_at_{};  // fed_at_: when the leader last sent a beat to
                                                                    // anybody
  bool begun_ = false, tasks_done_ = false;                         // begun: by the first tick
  Up sent_standing_{kNoEnd, 0, {}, {}, {}, {}, {}};                 // the last standing that the parent was sent
};

}  // namespace nacre::overlay
