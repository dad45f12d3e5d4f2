// SPDX-License-Identifier: Apache-2.0
#include "overlay/brood.hpp"

#include <algorithm>

namespace nacre::overlay {

Child* Brood::child(Id id) {
  auto found = std::find_if(children_.begin(), children_.end(), [&](const Child& each) { return each.id == id; });
  return found != children_.end() ? &*found : nullptr;
}

Down* Brood::down(Id peer) {
  auto found = std::lower_bound(downs_.begin(), downs_.end(), peer, [](const auto& a, Id b) { return a.peer < b; });
  return found != downs_.end() && found->peer == peer ? &*found : nullptr;
}

void Brood::set_children(const std::vector<Id>& ids, Time bound) {
  std::vector<Child> before = std::exchange(children_, {});
  for (Id id : ids) {
    Child next;
    next.id = id;
    auto old = std::find_if(before.begin(), before.end(), [&](const Child& each) { return each.id == id; });
    if (old != before.end()) {
      next.linked = old->linked;
      next.was_linked = old->was_linked;
      next.suspected = old->suspected;
      next.finished = old->finished;
      next.deadline = old->deadline;
    } else {
      Down* link = down(id);
      next.linked = link != nullptr && link->welcomed && !link->parted;
      next.was_linked = next.linked;
      next.deadline = out_.now + (next.linked ? Time(options_.silent_bound) : bound);
    }
    out_.wake(next.deadline);
    children_.push_back(std::move(next));
  }
}

void Brood::linked(Id peer) {
  auto at = std::lower_bound(downs_.begin(), downs_.end(), peer, [](const auto& a, Id b) { return a.peer < b; });
  Down fresh;
  fresh.peer = peer;
  if (at != downs_.end() && at->peer == peer) {
    *at = std::move(fresh);
  } else {
    downs_.insert(at, std::move(fresh));
  }
}

void Brood::unlinked(Id peer) {
  Down* link = down(peer);
  if (link == nullptr) return;
  bool was_on_purpose = link->parted;
  downs_.erase(downs_.begin() + (link - downs_.data()));
  Child* who = child(peer);
  if (who == nullptr || !who->linked) return;
  who->linked = false;
  if (was_on_purpose) who->was_linked = false;
  who->deadline = out_.now + (was_on_purpose ? options_.hello_bound : options_.relink_bound);
  out_.wake(who->deadline);
}

void Brood::heard(Id peer) {
  Child* who = child(peer);
  if (who == nullptr || !who->linked) return;
  who->deadline = out_.now + options_.silent_bound;
  who->suspected = false;
}

void Brood::shift_silence(milliseconds by) {
  for (Child& each : children_) {
    if (!each.linked) continue;  // it has a bound to come, or to come back
    each.deadline += by;
    out_.wake(each.deadline);
  }
}

void Brood::welcome(Down& link) {
  link.welcomed = true;
  if (Child* who = child(link.peer)) {
    who->linked = true;
    who->was_linked = true;
    heard(link.peer);
    out_.wake(who->deadline);
  }
}

void Brood::doubted(const Idset& ids) {
  for (Child& each : children_) {
    bool is_lost = each.was_linked && !each.linked && !each.finished && ids.contains(each.id);
    if (is_lost && down(each.id) == nullptr) each.suspected = true;
  }
}

Seq Brood::acked(bool without_lost) const {
  Seq least = kNoEnd;
  for (const Child& each : children_) {
    if (each.finished || (without_lost && each.suspected)) continue;
    least = std::min(least, each.reported ? each.acked : 0);
  }
  return least;
}

Idset Brood::suspects() const {
  Idset out;
  for (const Child& each : children_) {
    if (each.suspected && !each.finished) out.insert(each.id);
    if (!each.suspects.empty()) out = out | each.suspects;
  }
  return out;
}

void Brood::excuse(Time gap) {
  for (Child& each : children_) each.deadline += gap;
}

void Brood::tick() {
  for (Child& each : children_) {
    if (!each.finished && each.deadline <= out_.now) each.suspected = true;
  }
}

Time Brood::due() const {
  Time due = Outbox::kNever;
  for (const Child& each : children_) {
    if (!each.finished && !each.suspected) due = std::min(due, each.deadline);
  }
  return due;
}

}  // namespace nacre::overlay
