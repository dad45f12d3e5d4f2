// SPDX-License-Identifier: Apache-2.0
#include "overlay/child_table.hpp"

#include "overlay/wire.hpp"

namespace nacre::overlay {
namespace {

// The members below `top` that count, if all members between them and `top` count as well.
template <typename Counts>
Idset below(Id top, const Tree& tree, Counts counts) {
  Idset out;
  std::vector<Id> open{top};
  while (!open.empty()) {
    Id parent = open.back();
    open.pop_back();
    for (Id id : tree.children(parent)) {
      if (!counts(id)) continue;
      out.insert(id);
      open.push_back(id);
    }
  }
  return out;
}

// The members that may be lost with a child that never came; suspects() spares those that may live. A member
// without a feeder dials the members above it, up to the leader. In the time that the child has to come, a living
// member has done that, or is fed by one that has. A member that has moved need not do so: a parent of an earlier
// view may feed it.
Idset absent_below(Id child, const Tree& tree) {
  return below(child, tree, [&](Id each) { return tree.has_stayed(each); });
}

// A member that has come to this node lives, and so may those below it. It still counts as lost if its own parent
// misses it.
void keep_below(Id id, const Tree& tree, Idset& suspects) {
  auto parent = tree.parent(id);
  if (!parent || !suspects.contains(id)) return;
  Idset kept = below(id, tree, [&](Id each) { return suspects.contains(each); });
  if (suspects.contains(*parent)) kept.insert(id);
  suspects = suspects - kept;
}

}  // namespace

Child* ChildTable::child(Id id) {
  auto found = std::find_if(children_.begin(), children_.end(), [&](const Child& each) { return each.id == id; });
  return found != children_.end() ? &*found : nullptr;
}

DownLink* ChildTable::down(Id peer) {
  auto found = std::lower_bound(down_links_.begin(), down_links_.end(), peer,
                                [](const auto& a, Id b) { return a.peer < b; });
  return found != down_links_.end() && found->peer == peer ? &*found : nullptr;
}

bool ChildTable::any_ends() const {
  return std::any_of(down_links_.begin(), down_links_.end(), [](const DownLink& each) { return each.has_left; });
}

void ChildTable::set_children(Id self, const Tree& tree, bool is_first) {
  Time bound = is_first ? Time(options_.first_hello_bound) : std::min<Time>(options_.hello_bound, absent_bound_);
  std::vector<Child> before = std::exchange(children_, {});
  for (Id id : tree.children(self)) {
    Child next;
    next.id = id;
    auto old = std::find_if(before.begin(), before.end(), [&](const Child& each) { return each.id == id; });
    if (old != before.end()) {
      next.linked = old->linked;
      next.was_linked = old->was_linked;
      next.suspected = old->suspected;
      next.ended = old->ended;
      next.finished = old->finished;
      next.named = old->named;
      next.is_first = old->is_first;
      next.deadline = old->deadline;
      next.heard = old->heard;
      if (!old->absent.empty()) next.absent = absent_below(id, tree);
    } else {
      DownLink* link = down(id);
      next.linked = link != nullptr && link->welcomed && !link->parted;
      next.was_linked = next.linked;
      next.named = out_.now;
      next.is_first = is_first;
      next.deadline = out_.now + (next.linked ? Time(options_.silent_bound) : bound);
    }
    if (!next.suspected) out_.wake(next.deadline);
    children_.push_back(std::move(next));
  }
}

void ChildTable::linked(Id peer) {
  auto at = std::lower_bound(down_links_.begin(), down_links_.end(), peer,
                             [](const auto& a, Id b) { return a.peer < b; });
  DownLink fresh;
  fresh.peer = peer;
  if (at != down_links_.end() && at->peer == peer) {
    *at = std::move(fresh);
  } else {
    down_links_.insert(at, std::move(fresh));
  }
}

void ChildTable::unlinked(Id peer) {
  DownLink* link = down(peer);
  if (link == nullptr) return;
  bool was_on_purpose = link->parted;
  if (link->welcomed) went_[peer] = out_.now;
  if (link->welcomed && !was_on_purpose) broken_[peer] = out_.now;
  down_links_.erase(down_links_.begin() + (link - down_links_.data()));
  Child* found = child(peer);
  if (found == nullptr || !found->linked) return;
  found->linked = false;
  if (was_on_purpose) found->was_linked = false;
  found->deadline = out_.now + (was_on_purpose ? options_.hello_bound : options_.relink_bound);
  out_.wake(found->deadline);
}

void ChildTable::received(Id peer) {
  if (DownLink* link = down(peer)) link->heard = out_.now;
  Child* found = child(peer);
  if (found == nullptr || !found->linked) return;
  found->deadline = out_.now + options_.silent_bound;
  found->suspected = found->ended = false;
  found->heard.note(out_.now);
}

bool ChildTable::busy(Id id) {
  Child* found = child(id);
  if (out_.now >= busy_until_) return found != nullptr;
  Time bound = out_.now + options_.silent_bound;
  if (found == nullptr) {
    busy_elsewhere_[id] = bound;
    out_.wake(bound);
    return false;
  }
  found->deadline = std::max(found->deadline, bound);
  found->suspected = found->ended = false;
  return true;
}

void ChildTable::wait_for_absent(Time bound) {
  absent_bound_ = std::min(absent_bound_, bound);
  for (Child& each : children_) {
    if (each.was_linked || each.is_first) continue;
    each.deadline = std::min(each.deadline, out_.now + absent_bound_);
    out_.wake(each.deadline);
  }
}

void ChildTable::shift_silence(milliseconds by) {
  for (Child& each : children_) {
    if (!each.linked) continue;  // its bound is for coming, or coming back
    each.deadline += by;
    out_.wake(each.deadline);
  }
}

void ChildTable::welcome(DownLink& link) {
  link.welcomed = true;
  broken_.erase(link.peer);
  if (Child* found = child(link.peer)) {
    found->linked = true;
    found->was_linked = true;
    found->absent = {};
    received(link.peer);
    out_.wake(found->deadline);
  }
}

void ChildTable::doubted(const Idset& ids) {
  for (Child& each : children_) {
    bool is_lost = each.was_linked && !each.linked && !each.finished && ids.contains(each.id);
    if (is_lost && down(each.id) == nullptr) each.suspected = each.ended = true;
  }
}

Seq ChildTable::acked(bool without_lost) const {
  Seq least = kNoEnd;
  for (const Child& each : children_) {
    if (each.finished || (without_lost && each.suspected)) continue;
    least = std::min(least, each.reported ? each.acked : 0);
  }
  return least;
}

Idset ChildTable::lost() const {
  Idset out;
  for (const Child& each : children_) {
    if (each.suspected && !each.finished) out.insert(each.id);
  }
  return out;
}

Idset ChildTable::away(const Tree& tree) const {
  Idset out;
  for (const Child& each : children_) {
    const bool may_come = each.is_first && !each.heard.any();
    if (each.finished || (!each.suspected && (each.linked || may_come))) continue;
    out.insert(each.id);
    out = out | below(each.id, tree, [](Id) { return true; });
  }
  if (out.empty()) return out;
  for (const DownLink& each : down_links_) {
    const bool is_heard = each.welcomed && out_.now < each.heard + options_.silent_bound;
    if (!is_heard || !out.contains(each.peer)) continue;
    out.remove(each.peer);
    out = out - below(each.peer, tree, [](Id) { return true; });
  }
  return out;
}

Idset ChildTable::suspects(const Tree& tree) const {
  Idset out = lost();
  for (const Child& each : children_) {
    if (!each.suspects.empty()) out = out | each.suspects;
    if (!each.absent.empty()) out = out | each.absent;
  }
  if (out.empty()) return out;
  for (const DownLink& each : down_links_) keep_below(each.peer, tree, out);
  for (const auto& [id, at] : went_) keep_below(id, tree, out);
  for (const auto& [id, until] : busy_elsewhere_) {
    if (until > out_.now) out = out - Idset::range(id, id);
  }
  return out;
}

Idset ChildTable::ended(const Tree& tree) const {
  Idset out;
  for (const Child& each : children_) {
    if (each.suspected && each.ended) out.insert(each.id);
  }
  if (!out.empty()) out = out & suspects(tree);
  for (const auto& broken : broken_) {
    const bool is_child =
        std::any_of(children_.begin(), children_.end(), [&](const Child& each) { return each.id == broken.first; });
    if (!is_child && tree.has(broken.first)) out.insert(broken.first);
  }
  for (const Child& each : children_) {
    if (!each.ended_below.empty()) out = out | each.ended_below;
  }
  return out.take_first(kSplitIds);
}

void ChildTable::excuse(Time gap) {
  for (Child& each : children_) each.deadline += gap;
}

void ChildTable::tick(const Tree& tree) {
  Time known_since = out_.now - options_.hello_bound;
  for (Child& each : children_) {
    if (!each.was_linked) known_since = std::min(known_since, each.named);
    if (each.finished || each.suspected || each.deadline > out_.now) continue;
    each.suspected = true;
    each.ended = each.was_linked && !each.linked;
    if (each.linked) silent_.push_back(each.id);
    if (!each.was_linked) each.absent = absent_below(each.id, tree);
  }
  std::erase_if(busy_elsewhere_, [&](const auto& each) { return each.second <= out_.now; });
  std::erase_if(went_, [&](const auto& each) { return each.second < known_since; });
  // Others may be lost first, and then the new parent waits a hello bound; there are two of these, for what comes
  // late.
  const Time broken_since = out_.now - options_.relink_bound - 2 * options_.hello_bound;
  std::erase_if(broken_, [&](const auto& each) { return each.second < broken_since; });
}

Time ChildTable::due() const {
  Time due = Outbox::kNever;
  for (const Child& each : children_) {
    if (!each.finished && !each.suspected) due = std::min(due, each.deadline);
  }
  for (const auto& [id, until] : busy_elsewhere_) due = std::min(due, until);
  return due;
}

// ---- hearing ----------------------------------------------------------------------------

namespace {

// In seconds, of which two decimals are enough.
double rounded(Time time) {
  constexpr double kHundredth = 10'000;  // microseconds
  return static_cast<double>(std::llround(static_cast<double>(time.count()) / kHundredth)) / 100;
}

}  // namespace

void LastHeard::note(Time now) {
  last_ = now;
  if (any() && now - times_.back() < kApart) return;
  times_.push_back(now);
  if (times_.size() > kMost) times_.pop_front();
}

std::string LastHeard::text(Time now) const {
  if (!any()) return "nothing has come from it";
  std::string out = fmt::format("nothing has come from it for {:g} s", rounded(now - last()));
  std::string before;
  for (std::size_t i = 1; i < times_.size(); ++i) {
    const char* joint = before.empty() ? "" : i + 1 == times_.size() ? " and " : ", ";
    before += fmt::format("{}{:g}", joint, rounded(times_[i] - times_[i - 1]));
  }
  return before.empty() ? out : fmt::format("{} (before that {} s apart)", out, before);
}

void Lateness::note(Time now, Time late) {
  if (late < kLeast) return;
  if (!ticks_.empty() && now - ticks_.back().first < kApart) {
    ticks_.back().second = std::max(ticks_.back().second, late);
    return;
  }
  ticks_.emplace_back(now, late);
  if (ticks_.size() > kMost) ticks_.pop_front();
}

Time Lateness::most_since(Time since) const {
  Time most{};
  for (const auto& [at, late] : ticks_) {
    if (at >= since) most = std::max(most, late);
  }
  return most;
}

}  // namespace nacre::overlay
