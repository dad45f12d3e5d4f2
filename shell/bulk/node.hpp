// SPDX-License-Identifier: Apache-2.0
//
// One shell's part in bulk data: what any shell puts goes up to the leader, what the leader broadcasts goes down to
// all. It has no sockets, clock or threads. doc/protocol.md, "Bulk", has the format and the rules.
//
// Up: the leader delivers each origin's records once and in order, as long as the origin lives and has a way to the
// leader; of an origin that dies, only the first of them. Down: a shell that is in every view gets all, once and in
// order. A newcomer gets what is broadcast after it has come, and the end of each channel that ended before. A
// shell that leaves the view gets only the first records. Writers stop for good only if an owner does not take what
// it is given.
//
// The driver reports what happens, and performs take_effects() in order. After up() or child_up() of a peer, calls
// and effects that name its link mean the new one.
#pragma once

#include "bulk/options.hpp"
#include "bulk/wire.hpp"
#include "value/link.hpp"

namespace nacre::bulk {

// What a node asks its driver to do. The driver does it in order, before it calls the node again.

using value::LinkName;
using value::Side;

// The driver calls written() when it has taken all the bytes; until then the node asks for no other Write on this
// stream. The driver keeps what it has not taken; it drops it when the link ends.
struct Write {
  LinkName to;
  StreamId stream = 0;
  std::string bytes;
};
struct Grant {  // how many more bytes the peer may send
  LinkName to;
  StreamId stream = 0;
  std::size_t bytes = 0;
};
// Leader: a record of an origin, each once and in order. The owner answers with taken(), at any time. No bytes: the
// channel has ended.
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
struct WaitForMore {};    // answers wait for those of other shells: the driver calls waited() after a while

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

// What a node keeps of each link: the links over which it feeds other shells, its children, and its own way up.

// What came over a link and is not yet a whole record or note, and how much each end may still write.
struct Traffic {
  Traffic(Direction way, std::size_t most, std::size_t credit)
      : records(way, most), notes(way), record_credit(credit) {}

  BulkRecordReader records;
  NoteReader notes;
  std::size_t record_credit;  // bytes that the peer may still send
  std::size_t note_credit = kNotesCredit;
  bool writes_records = false;  // a Write that has not been taken as a whole
  bool writes_notes = false;
};

struct BulkChild {
  BulkChild(std::uint64_t number, const Limits& limits)
      : serial(number), traffic(Direction::up, limits.record, limits.link) {}

  std::uint64_t serial;  // of the link: a later link of the same peer has another number
  Traffic traffic;
  bool gone = false;  // the link has ended, but what it has brought still goes up
  struct Queued {
    std::string record;  // complete
    bool is_answer;
  };
  std::deque<Queued> queue;  // on their way up
  std::size_t queued = 0;    // bytes of the queue
  std::size_t urgent = 0;    // records of the queue that are no answers
  std::size_t owed = 0;      // bytes of credit that are not yet given back

  bool path = false;             // the child is still to be sent `path`
  std::map<Id, Numbered> taken;  // per origin below it: still to be sent
  Numbered stable_sent = 0;

  bool greeted = false;
  bool unstarted = false;      // a newcomer that still has to be told where the broadcast begins for it
  Numbered fed = 0;            // the last broadcast record that it has, or was sent
  std::optional<Heard> heard;  // the last one that it has sent

  void enqueue(std::string_view record, bool is_answer);
  // Moves the first record of the queue to `out`, and returns its size.
  std::size_t take_first(std::string& out);
  void drop_queue();
  // Credit is given back in large parts: all that is owed, once the peer has less than half of `most`, or much is
  // owed. 0: not now.
  std::size_t take_owed(std::size_t most);
};

// The children over whose links records come, and those whose links have ended but whose records still go up; and
// which of them the view has.
class BulkChildren {
 public:
  using Map = std::map<Id, BulkChild>;

  explicit BulkChildren(const Limits& limits) : limits_(limits) {}

  BulkChild& add(Id peer);                              // a new link, which replaces the peer's former one
  BulkChild* linked(Id peer);                           // null: there is no link
  BulkChild* linked(Id peer, std::uint64_t serial);     // null: this link is not there
  void unlink(Id peer);                                 // drops what has come only in part
  void forget_done();                                   // children without a link whose records have all gone up
  [[nodiscard]] std::size_t held_bytes(Id peer) const;  // of records that have not gone up

  void set_view(ViewNumber number, const std::vector<Id>& members);
  [[nodiscard]] std::optional<ViewNumber> view() const { return view_; }
  [[nodiscard]] const std::vector<Id>& members() const { return members_; }  // the view's children
  // The last broadcast record that all members have taken, and this shell (`own`). None: some member has not
  // reported in this view.
  std::optional<Numbered> heard_by_all(Numbered own);

  Map::iterator begin() { return children_.begin(); }
  Map::iterator end() { return children_.end(); }
  [[nodiscard]] Map::const_iterator begin() const { return children_.begin(); }
  [[nodiscard]] Map::const_iterator end() const { return children_.end(); }
  [[nodiscard]] Map::const_iterator find(Id peer) const { return children_.find(peer); }
  Map::iterator after(Id peer) { return children_.upper_bound(peer); }

 private:
  Limits limits_;
  Map children_;
  std::optional<ViewNumber> view_;
  std::vector<Id> members_;
  std::uint64_t serial_ = 0;  // of the last link
};

struct BulkUplink {
  BulkUplink(Id id, const Limits& limits, std::size_t credit)
      : peer(id), traffic(Direction::down, limits.record, credit) {}

  Id peer;
  Traffic traffic;
  bool greeted = false;
  std::optional<Heard> sent;
};

// The newest part of the broadcast that this shell has: all that another shell may still need.
class BroadcastStore {
 public:
  struct Kept {
    Head head;
    std::string bytes;
  };

  // The last number that was dropped, and the last one that came.
  [[nodiscard]] Numbered stable() const { return stable_; }
  [[nodiscard]] Numbered have() const { return stable_ + records_.size(); }
  [[nodiscard]] const Kept* find(Numbered number) const {
    return number > stable_ && number <= have() ? &records_[number - stable_ - 1] : nullptr;
  }
  // Adds the record have() + 1. Its bytes do not move until it is dropped.
  const Kept& add(Head head, std::string_view bytes);
  // Drops the records up to this number.
  void drop(Numbered stable);
  // Empties the store; the next record is `stable` + 1.
  void start_after(Numbered stable);
  // As start_after(), for the broadcast of a new leader. The present records are kept until forget_former(), as
  // they are announced.
  void start_anew_after(Numbered stable);
  void forget_former() { former_.clear(); }

  void end(Channel channel) { ended_.insert(channel); }
  [[nodiscard]] const std::set<Channel>& ended() const { return ended_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // of all that is here, with heads

 private:
  std::deque<Kept> records_;
  std::deque<Kept> former_;  // of the former leader
  Numbered stable_ = 0;
  std::size_t bytes_ = 0;
  std::set<Channel> ended_;
};

// What one shell has of the broadcast: announces it to its owner, keeps it for the shells that it feeds, and knows
// up to where all shells have it. It gets records from its owner (on the leader) or from above.
class BroadcastRecords {
 public:
  // Both have to outlive it.
  BroadcastRecords(const BulkOptions& options, BulkOutbox& out)
      : options_(options), out_(out), started_(!options.newcomer) {}

  // See BulkNode.
  Result<bool> broadcast(Channel channel, std::string_view bytes);
  Result<void> end(Channel channel);
  void consumed(Numbered number);

  // ---- what comes from above
  Result<void> take(const BulkRecord& record);
  void drop(Numbered stable);            // all shells have taken up to here
  void drop_stable() { drop(stable_); }  // also records that came after they were known to be stable

  // Leader: all members of the view have taken up to here.
  void all_have(Numbered number);
  // This shell leads from now on: its first record is `base` + 1, and nothing more comes from the former leader.
  void lead(Numbered base);

  // ---- what goes down
  void feed(BulkChild& child, std::string& out) const;  // appends the next records that it has not been sent
  void notify(BulkChild& child, std::string& out) const;

  [[nodiscard]] bool started() const { return started_; }  // knows where the broadcast begins
  [[nodiscard]] Numbered have() const { return store_.have(); }
  [[nodiscard]] Numbered consumed() const { return std::min(consumed_, store_.have()); }
  [[nodiscard]] std::size_t bytes() const { return store_.bytes(); }

 private:
  Result<void> start(const BulkRecord& record);
  void start_anew(Numbered base, const std::vector<Channel>& ended);
  void announce_ends(const std::vector<Channel>& ended, Numbered last);
  void add(BulkKind kind, Channel channel, std::string_view bytes);
  void cut_off();

  const BulkOptions& options_;
  BulkOutbox& out_;
  BroadcastStore store_;
  std::size_t wants_ = 0;  // bytes that broadcast() has refused
  bool started_;
  bool cut_off_ = false;   // the broadcast goes on without this shell
  Numbered first_ = 0;     // newcomer: up to here nothing is announced
  Numbered consumed_ = 0;  // the owner has consumed up to here
  Numbered stable_ = 0;    // all shells have taken up to here, as far as this one knows
};

// What a shell knows of the origins whose records reach it: the link over which the last attempt of each came, and
// on the leader also how far each origin's records were delivered and taken.
class OriginTable {
 public:
  explicit OriginTable(std::size_t most) : most_(most) {}

  struct Route {
    Id peer = 0;
    std::uint64_t link = 0;  // Child::serial
  };
  // False: the record is of an attempt earlier than one already seen, and its origin sends it again; or it comes
  // twice in one attempt, as ways up may form a circle while a leader is looked for. True: notes for the origin go
  // over this link from now on. ENOSPC: too many origins.
  Result<bool> came(const Head& head, Route from);
  [[nodiscard]] std::optional<Route> route(Id origin) const;

  // ---- at the leader
  // Origins count only from their next attempt on, as this shell has not led from the start.
  void take_over() { begins_ = false; }
  // An attempt begins with this number. False: the origin's records are known here.
  bool begin(Id origin, Numbered number);
  enum class Verdict : std::uint8_t { next, again, ahead };  // ahead: records before it were lost, and will come
                                                             // again
  Verdict judge(Id origin, Numbered number);  // next: it counts as delivered
  void delivered(Id origin, Numbered number, Route from, std::size_t bytes, bool is_answer);
  struct Credit {
    Route to;
    std::size_t bytes;
  };
  // Takes the next delivered record up to this number; returns the credit to give to its link. None: there is no
  // more.
  std::optional<Credit> take(Id origin, Numbered number);
  // Whether the origin is to be notified of what was taken since this last returned true. Answers alone, of at most
  // `most_answers` bytes, are no reason.
  bool note_is_due(Id origin, std::size_t most_answers);
  [[nodiscard]] Numbered taken(Id origin) const;

 private:
  struct Waiting {
    Numbered number;
    Credit credit;
    bool is_answer;
  };
  struct Origin {
    std::uint32_t attempt = 0;
    Numbered came = 0;  // the last record of this attempt
    Route route;
    bool known = false;  // which records have been delivered
    Numbered delivered = 0;
    Numbered taken = 0;
    std::deque<Waiting> waiting;      // delivered, not taken
    std::size_t unnoted_answers = 0;  // bytes
    bool unnoted_others = false;
  };

  std::size_t most_;
  bool begins_ = true;  // all records of all origins come here, from the first on
  std::unordered_map<Id, Origin> origins_;
};

// The records of this shell that the leader has not taken. They are kept so that they can be sent again over a new
// way to the leader.
class UnackedRecords {
 public:
  explicit UnackedRecords(Id self) : self_(self) {}

  // Returns the record's number. With `keep` its bytes are kept here; without, only its size counts.
  Numbered add(Channel channel, std::string_view bytes, bool keep, bool is_answer);
  void end(Channel channel) { ended_.insert(channel); }
  [[nodiscard]] const std::set<Channel>& ended() const { return ended_; }
  // Forgets those up to this number.
  void taken(Numbered number);

  // All records that are here will be sent again, as another attempt.
  void rewind() {
    next_ = 0;
    ++attempt_;
    begins_ = first_ > 1;
  }
  // Appends the next record to be sent; false: there is none.
  bool send_next(std::string& out);
  // For a shell that has come to lead: calls `call` with each record that is here, and before that with the last
  // records of channels that have ended already.
  void each(const std::function<void(Numbered, Channel, std::string_view bytes)>& call) const;

  [[nodiscard]] Numbered last() const { return first_ + records_.size() - 1; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool empty() const { return records_.empty(); }
  [[nodiscard]] bool all_sent() const { return !begins_ && next_ == records_.size(); }
  // Whether a record that is no answer is still to be sent.
  [[nodiscard]] bool is_urgent() const { return begins_ || last_urgent_ >= first_ + next_; }

 private:
  struct Kept {
    BulkKind kind;
    Channel channel;
    std::size_t size;
    std::string bytes;
  };

  [[nodiscard]] std::vector<Channel> ended_before() const;

  Id self_;
  std::deque<Kept> records_;
  Numbered first_ = 1;         // of records_
  Numbered last_urgent_ = 0;   // the last one that is no answer
  std::size_t next_ = 0;       // index in records_ of the next one to be sent
  std::size_t bytes_ = 0;      // of all records_, with heads
  std::uint32_t attempt_ = 0;  // how many times the way to the leader has changed
  bool begins_ = false;        // the attempt's start is to be sent
  std::set<Channel> ended_;
};

// Records on their way to the leader, and acknowledgements on their way back. This shell's records are kept until
// the leader has taken them; those of the shells below are passed on or, on the leader, delivered to its owner.
class UpwardRecords {
 public:
  // All have to outlive it. Records from below wait in the queues of `children`.
  UpwardRecords(const BulkOptions& options, BulkChildren& children, BulkOutbox& out)
      : options_(options),
        children_(children),
        out_(out),
        unacked_(options.self),
        origins_(options.limits.origins) {}

  // See BulkNode.
  Result<bool> put(Channel channel, std::string_view bytes);
  Result<void> end(Channel channel);
  void taken(Id origin, Numbered number);
  bool waited();  // false: no answers wait

  Result<void> take(Id peer, BulkChild& child, const BulkRecord& record);  // from below
  Result<void> take_note(const Taken& note);                               // from above
  void new_path();  // a link above is new, and what was under way may be lost
  void lead();      // this shell leads from now on
  // Appends the records that are to go up now.
  void send(std::string& out);

  [[nodiscard]] std::size_t bytes() const { return unacked_.bytes(); }  // of this shell's records, with heads

 private:
  void add(Channel channel, std::string_view bytes);
  Result<void> own_taken(Numbered number);
  void note_taken(Id origin, Numbered number);
  bool deliver(OriginTable::Route from, const BulkRecord& record);
  Result<void> begin(OriginTable::Route from, const BulkRecord& start);
  [[nodiscard]] bool is_answer(BulkKind kind, Channel channel) const {
    return kind == BulkKind::data && options_.answers.contains(channel);
  }
  [[nodiscard]] std::size_t most_unnoted() const;
  [[nodiscard]] bool has_some_to_send() const;
  [[nodiscard]] bool waits_for_answers() const;
  bool send_next(std::string& out);

  const BulkOptions& options_;
  BulkChildren& children_;
  BulkOutbox& out_;
  UnackedRecords unacked_;
  OriginTable origins_;
  std::optional<Id> last_;  // whose record went up last; none: this shell's own
  std::size_t wants_ = 0;   // bytes that put() has refused
  bool dirty_ = false;      // a record from below was sent up since the last change of the way
  // For answers that are to be sent:
  bool waits_ = false;  // they wait for others
  bool go_ = false;     // they do not wait, or have waited
};

class BulkNode : Noncopyable {
 public:
  explicit BulkNode(const BulkOptions& options);  // `options.limits` pass check()

  // ---- what happens ----
  // The overlay's tree, at the beginning and at each change. Its number grows. The leader is given it before all
  // others. A broadcast record is dropped only when all members of a view have taken it.
  void view(ViewNumber number, const std::vector<Id>& children);
  // There is a link to the shell that feeds this one: its parent, or another one meanwhile. It replaces the former
  // link.
  void up(Id peer);
  void no_up();
  // There is a link to a shell that this one feeds, a child of the view or not. It replaces that shell's former
  // link.
  void child_up(Id peer);
  void child_gone(Id peer);
  // Bytes of a stream, in any pieces. After an error (EPROTO, ENOSPC) the driver has to end the link, and the node
  // counts it as ended. Bytes of a link that is not there have no effect.
  Result<void> received(LinkName from, StreamId stream, std::string_view bytes);
  void written(LinkName to, StreamId stream);  // all bytes of the last Write
  void waited();                               // the time for which WaitForMore was to wait is over

  // This shell, which has led no job before, leads from now on, in this term of the overlay. Records that the
  // former leader has not taken come here, and so do this shell's own. What the former leader has broadcast comes
  // no more.
  void lead(std::uint64_t term);

  // ---- what the owner wants ----
  // Sends 1 to Limits::record bytes to the leader. False: the window is full; Room comes when there is room.
  // EMSGSIZE, EINVAL: no bytes, EPIPE: the channel has ended.
  Result<bool> put(Channel channel, std::string_view bytes);
  Result<void> end(Channel channel);  // once; it may exceed the window
  // Leader: as put(), to all shells. EPERM: this is not the leader. ENOSPC: kMaxBroadcastChannels have ended.
  Result<bool> broadcast(Channel channel, std::string_view bytes);
  Result<void> end_broadcast(Channel channel);
  // Leader: the owner has taken this origin's records up to here for good; the origin may forget them.
  void taken(Id origin, Numbered number);
  void consumed(Numbered number);  // the owner no longer needs the announced bytes up to here
  [[nodiscard]] std::vector<BulkEffect> take_effects() { return std::exchange(out_.effects, {}); }

  // ---- state: bytes that are held, with heads ----
  // The three have these limits: Limits::window and the ends; Limits::broadcast and the ends; Limits::link.
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
