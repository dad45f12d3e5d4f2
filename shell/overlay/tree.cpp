// SPDX-License-Identifier: Apache-2.0
#include "overlay/tree.hpp"

#include "base/invariant.hpp"

namespace nacre::overlay {

Tree::Tree(const Snapshot& snapshot) : first_(snapshot.first), arity_(snapshot.arity), size_(snapshot.size) {
  for (const Seat& each : snapshot.seats) {
    placed_.push_back({each.id, each.slot, each.joined, each.address});
    if (each.slot != kGone && each.slot != each.id) moved_.push_back({each.slot, each.id});
    latest_ = std::max(latest_, each.joined);
  }
  std::sort(placed_.begin(), placed_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  std::sort(moved_.begin(), moved_.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
}

void Tree::write(Snapshot& snapshot) const {
  snapshot.first = first_;
  snapshot.arity = arity_;
  snapshot.size = size_;
  for (const Placed& each : placed_) snapshot.seats.push_back({each.slot, each.id, each.joined, each.address});
}

const Tree::Placed* Tree::find(Id id) const {
  auto found = std::lower_bound(placed_.begin(), placed_.end(), id, [](const auto& a, Id b) { return a.id < b; });
  return found != placed_.end() && found->id == id ? &*found : nullptr;
}

Tree::Placed& Tree::place(Id id) {
  auto found = std::lower_bound(placed_.begin(), placed_.end(), id, [](const auto& a, Id b) { return a.id < b; });
  if (found == placed_.end() || found->id != id) found = placed_.insert(found, {id, id, 0, ""});
  return *found;
}

Id Tree::at(Slot slot) const {
  auto found =
      std::lower_bound(moved_.begin(), moved_.end(), slot, [](const auto& a, Slot b) { return a.slot < b; });
  return found != moved_.end() && found->slot == slot ? found->id : slot;
}

std::optional<Slot> Tree::slot_of(Id id) const {
  if (const Placed* placed = find(id)) return placed->slot == kGone ? std::nullopt : std::optional(placed->slot);
  if (id < first_) return id;
  return std::nullopt;
}

Seq Tree::joined(Id id) const {
  const Placed* placed = find(id);
  return placed != nullptr ? placed->joined : 0;
}

Id Tree::last_joined(Seq view) const {
  auto found =
      std::find_if(placed_.rbegin(), placed_.rend(), [&](const Placed& each) { return each.joined == view; });
  return found != placed_.rend() ? found->id : 0;
}

Id Tree::first_unused() const { return placed_.empty() ? first_ : std::max(first_, placed_.back().id + 1); }

std::string Tree::address(Id id) const {
  const Placed* placed = find(id);
  return placed != nullptr ? placed->address : "";
}

std::optional<Id> Tree::parent(Id id) const {
  auto slot = slot_of(id);
  if (!slot || *slot == 0) return std::nullopt;
  return at((*slot - 1) / arity_);
}

std::vector<Id> Tree::children(Id id) const {
  std::vector<Id> out;
  auto slot = slot_of(id);
  if (!slot) return out;
  std::uint64_t first = std::uint64_t{*slot} * arity_ + 1;
  for (std::uint64_t each = first; each < first + arity_ && each < size_; ++each) {
    out.push_back(at(static_cast<Slot>(each)));
  }
  return out;
}

std::vector<Id> Tree::ancestors(Id id) const {
  std::vector<Id> out;
  for (auto up = parent(id); up; up = parent(*up)) out.push_back(*up);
  return out;
}

std::uint32_t Tree::depth(Id id) const {
  std::uint32_t out = 0;
  for (Slot slot = slot_of(id).value_or(0); slot > 0; slot = (slot - 1) / arity_) ++out;
  return out;
}

std::vector<Id> Tree::members_of(const Idset& ids) const {
  std::vector<Id> out;
  if (ids.size() <= size_) {
    out = ids.ids();
    std::erase_if(out, [&](Id id) { return !has(id); });
    return out;
  }
  for (Slot slot = 0; slot < size_; ++slot) {
    if (ids.contains(at(slot))) out.push_back(at(slot));
  }
  std::sort(out.begin(), out.end());
  return out;
}

Idset Tree::members() const {
  Idset out = Idset::range(0, first_ - 1);
  for (const Placed& each : placed_) each.slot == kGone ? out.remove(each.id) : out.insert(each.id);
  return out;
}

bool Tree::in(Id id, Scope scope) const {
  Seq seq = joined(id);
  return seq >= scope.from && seq <= scope.to;
}

bool Tree::any_in(Slot slot, Scope scope) const {
  if (scope.from == 0 && scope.to >= latest_) return true;
  std::uint64_t begin = slot;
  std::uint64_t end = begin + 1;
  for (; begin < size_; begin = begin * arity_ + 1, end = end * arity_ + 1) {
    for (std::uint64_t each = begin; each < end && each < size_; ++each) {
      if (in(at(static_cast<Slot>(each)), scope)) return true;
    }
  }
  return false;
}

void Tree::seat(Slot slot, Id id) {
  auto found =
      std::lower_bound(moved_.begin(), moved_.end(), slot, [](const auto& a, Slot b) { return a.slot < b; });
  bool is_there = found != moved_.end() && found->slot == slot;
  if (slot == id) {
    if (is_there) moved_.erase(found);
  } else if (is_there) {
    found->id = id;
  } else {
    moved_.insert(found, {slot, id});
  }
  place(id).slot = slot;
}

void Tree::remove(Id id) {
  auto slot = slot_of(id);
  if (!slot || *slot == 0) return;
  Id last = at(size_ - 1);
  if (last != id) seat(*slot, last);
  place(id).slot = kGone;
  INVARIANT(size_ > 0);
  --size_;
  // The last slot is empty now, so what is noted of it is dropped: the next newcomer there has its own.
  if (!moved_.empty() && moved_.back().slot == size_) moved_.pop_back();
}

void Tree::apply(Seq view, const View& change) {
  auto of_leader = slot_of(change.leader);
  if (of_leader.value_or(0) != 0) {
    const Id before = leader();
    seat(0, change.leader);
    seat(*of_leader, before);
  }
  for (Id id : members_of(change.leave | change.dead)) remove(id);
  for (const Newcomer& each : change.add) {
    if (each.id < first_ || find(each.id) != nullptr) continue;  // ids are not used twice
    seat(size_++, each.id);
    Placed& placed = place(each.id);
    placed.joined = view;
    placed.address = each.address;
    latest_ = view;
  }
}

}  // namespace nacre::overlay
