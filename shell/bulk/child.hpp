// SPDX-License-Identifier: Apache-2.0
//
// What a node keeps of each link: of those over which it feeds other shells, its children, and of its own way up.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bulk/effect.hpp"
#include "bulk/wire.hpp"

namespace nacre::bulk {

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
    std::string record;  // whole
    bool is_answer;
  };
  std::deque<Queued> queue;  // on their way up
  std::size_t queued = 0;    // bytes of the queue
  std::size_t urgent = 0;    // records of it that are no answers
  std::size_t owed = 0;      // bytes of credit that are not yet given back

  bool path = false;             // the child is still to be sent `path`
  std::map<Id, Numbered> taken;  // per origin below it: still to be sent
  Numbered stable_sent = 0;

  bool greeted = false;
  bool unstarted = false;      // a newcomer that is still to be sent where the broadcast begins for it
  Numbered fed = 0;            // the last broadcast record that it has, or was sent
  std::optional<Heard> heard;  // the last one that it has sent

  void enqueue(std::string_view record, bool is_answer);
  // Moves the first record of the queue to `out`; its size.
  std::size_t take_first(std::string& out);
  void drop_queue();
  // Credit is given back in large parts: all that is owed, once that is much, or the peer has less than half of
  // `most`. 0: not now.
  std::size_t take_owed(std::size_t most);
};

// The children over whose links records come, and those whose links have ended but whose records still go up; and
// which of them the view has.
class BulkChildren {
 public:
  using Map = std::map<Id, BulkChild>;

  explicit BulkChildren(const Limits& limits) : limits_(limits) {}

  BulkChild& add(Id peer);                              // a new link, in place of the peer's one before
  BulkChild* linked(Id peer);                           // null: there is no link
  BulkChild* linked(Id peer, std::uint64_t serial);     // null: there is not this link
  void unlink(Id peer);                                 // what has come only in part is dropped
  void forget_done();                                   // those without a link whose records have gone up
  [[nodiscard]] std::size_t held_bytes(Id peer) const;  // of records that have not gone up

  void set_view(ViewNumber number, const std::vector<Id>& members);
  [[nodiscard]] std::optional<ViewNumber> view() const { return view_; }
  [[nodiscard]] const std::vector<Id>& members() const { return members_; }  // the view's children
  // Up to where all members, and this shell, which has `own`, have taken the broadcast. None: some member has not
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

}  // namespace nacre::bulk
