// SPDX-License-Identifier: Apache-2.0
//
// Which member sits in which slot: a function of the log alone. Members sit in slots without gaps; the parent of
// slot s is (s-1)/arity.
//
// The first members sit in the slot of their id. Only deviations are stored, so a tree of 100,000 members of which
// few have left costs little. The time of a look-up is logarithmic in the number of deviations.
#pragma once

#include "overlay/message.hpp"

namespace nacre::overlay {

using Slot = std::uint32_t;

class Tree {
 public:
  // `first`: members at the beginning, at least 1; arity at least 2.
  Tree(std::uint32_t first, std::uint32_t arity) : first_(first), arity_(arity), size_(first) {}
  explicit Tree(const Snapshot& snapshot);
  // Writes the tree's part of a snapshot.
  void write(Snapshot& snapshot) const;

  // A new leader changes places with the former one. Takes out those that leave or are dead, in the order of their
  // ids, and fills each one's slot with the last member; then puts newcomers at the end. Ignores unknown ids that
  // leave, known ids that are added, and the leader's own leave.
  void apply(Seq view, const View& change);

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] Id leader() const { return at(0); }
  [[nodiscard]] Idset members() const;
  [[nodiscard]] std::uint32_t arity() const { return arity_; }
  [[nodiscard]] Id at(Slot slot) const;  // slot < size()
  [[nodiscard]] std::optional<Slot> slot_of(Id id) const;
  [[nodiscard]] bool has(Id id) const { return slot_of(id).has_value(); }
  // One of the first members, which has been in the slot of its id all the time.
  [[nodiscard]] bool has_stayed(Id id) const { return id < first_ && find(id) == nullptr; }
  [[nodiscard]] Seq joined(Id id) const;                 // the view that brought the member; 0 for the first ones
  [[nodiscard]] Id last_joined(Seq view) const;          // the last member that this view, not 0, has brought
  [[nodiscard]] Id first_unused() const;                 // this id, and all above it, have never been members
  [[nodiscard]] std::string address(Id id) const;        // of a later member; "" for the first ones
  [[nodiscard]] std::optional<Id> parent(Id id) const;   // none: the leader, or no member
  [[nodiscard]] std::vector<Id> children(Id id) const;   // in the order of their slots
  [[nodiscard]] std::vector<Id> ancestors(Id id) const;  // from the parent up to the leader
  [[nodiscard]] std::uint32_t depth(Id id) const;        // of the leader: 0
  // The members among these ids, ascending. The cost depends on the smaller of the two sets.
  [[nodiscard]] std::vector<Id> members_of(const Idset& ids) const;
  // Whether any member in the subtree of this slot is in the scope. Looks at the whole subtree, unless the scope
  // has all members.
  [[nodiscard]] bool any_in(Slot slot, Scope scope) const;
  [[nodiscard]] bool in(Id id, Scope scope) const;

 private:
  friend struct NodeState;
  struct Placed {  // a member of the first view that has moved or gone, or a later one
    Id id;
    Slot slot;  // kGone: none
    Seq joined;
    std::string address;
  };
  struct Moved {  // the member in a slot, if its id is not the slot's number
    Slot slot;
    Id id;
  };
  static constexpr Slot kGone = UINT32_MAX;

  void remove(Id id);
  void seat(Slot slot, Id id);
  [[nodiscard]] const Placed* find(Id id) const;
  Placed& place(Id id);

  std::uint32_t first_;
  std::uint32_t arity_;
  std::uint32_t size_;
  Seq latest_ = 0;              // the largest joined() of all members so far
  std::vector<Placed> placed_;  // by id
  std::vector<Moved> moved_;    // by slot
};

}  // namespace nacre::overlay
