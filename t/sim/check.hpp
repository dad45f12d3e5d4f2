// SPDX-License-Identifier: Apache-2.0
//
// The invariants of doc/protocol.md, checked against a model that is made from the page and not from the code: the
// log as the leader delivers it, and a plain list of members.
#pragma once

#include "world.hpp"

namespace nacre::sim {

inline constexpr Time kSlack = 5 * kSecond;  // for beats and entries that are still under way

// What the checks know of a host beside its node.
struct Account {
  Seq delivered = 0;           // the last entry; of a newcomer first the view that brought it
  std::vector<Entry> entries;  // the delivered entries, up to `delivered`
  bool has_end = false;        // among them
  bool parted = false;         // it has had an entry of a leader that was lost with it
  Seq seen_view = 0;
  bool joined = false;
  bool tasks = false;     // some run there
  bool was_busy = false;  // a handler ran there, in which it cannot vote
  bool faulty = false;    // the run has done something to it or to a link of it
  Seq floor = 1;          // of its log
  bool was_fed = false;
  bool let_go = false;  // the node has let go of a link upward in this call
  std::set<std::string> entered;
};

class Check {
 public:
  explicit Check(World& world) : world_(world) {}

  void begin(std::uint32_t members, std::uint32_t arity, Time bound, bool hands_over);
  Account& of(Id id);

  void delivered(Id id, Seq seq);
  void completed(Id leader, Seq seq);
  void released(Id id, const Released& value);
  void died(Id id, const std::string& why);
  void hung_up(Id id, LinkName link);
  void stepped(Id id);
  // When all faults are long over.
  void at_rest();
  void asked(RequestId id, RequestBody body) { asked_[{id.origin, id.number}] = std::move(body); }

  // The value that the members of the scope make together.
  static Own part_of(const std::string& name, Merge merge, Id id);

  [[nodiscard]] const std::vector<Id>& members() const { return views_.rbegin()->second; }
  [[nodiscard]] bool is_member(Id id) const;
  [[nodiscard]] Id leader() const { return members().front(); }
  [[nodiscard]] bool ended() const { return ended_; }
  std::uint64_t campaigns = 0;
  std::uint64_t deaths = 0;
  std::uint64_t releases = 0;
  std::uint64_t leaders = 1;

 private:
  struct Open {
    bool grow;
    Seq view;
    Idset targets;
  };
  using Key = std::pair<Id, std::uint64_t>;

  void take_log(Id leader, Seq seq);
  [[nodiscard]] const Entry* entry_of(Id id, Seq seq);
  [[nodiscard]] bool has_majority_without_fault();
  void rest_without_leader();
  void rest(const Node& head);
  void lead(const Entry& entry);
  void lead(const Entry& entry, const View& change);
  void lead(const Entry& entry, const Release& piece);
  void lead(const Entry& entry, const Promise& promise);
  void lead(const Entry& entry, const Exec& exec);
  void lead(const Entry& entry, const Refused& refused);
  void lead(const Entry& entry, const Campaign& end);
  void watch_tasks(Id id, Time bound);
  [[nodiscard]] Value expected(const std::string& name, Merge merge, Scope scope,
                               const std::vector<Id>& members) const;

  World& world_;
  std::uint32_t arity_ = 2;
  Time bound_{};
  std::vector<Account> accounts_;
  std::vector<Entry> log_;
  std::map<Seq, std::vector<Id>> views_;  // by slot
  std::map<Id, Seq> joined_;
  std::map<Key, Open> open_;
  std::set<Key> answered_;
  std::set<Key> over_;
  std::map<Key, RequestBody> asked_;
  std::map<std::string, Value> values_;
  Seq safe_floor_ = 1;
  std::map<std::uint64_t, Id> leader_of_;  // by term
  bool hands_over_ = false;                // the log is what all members have; otherwise what the leader has
  bool ended_ = false;
};

}  // namespace nacre::sim
