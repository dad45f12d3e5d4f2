// SPDX-License-Identifier: Apache-2.0
#include "overlay/uplink.hpp"

#include "overlay/wire.hpp"

namespace nacre::overlay {

bool Uplink::trying(Id peer) const {
  return std::any_of(attempts_.begin(), attempts_.end(), [&](const Attempt& each) { return each.peer == peer; });
}

// While another node feeds, a parent that has passed no beat on is of no use.
bool Uplink::wants_parent() const {
  bool elsewhere = starving_ && current_ && current_ == above_.back();
  return !above_.empty() && !at_parent() && !trying(above_.front()) && !elsewhere;
}

// After a change of the leader the feeder may be a node that is not above: the node that misses this one would not
// know of it.
bool Uplink::has_feeder_above() const {
  if (!current_ || !options_.hands_over) return current_.has_value();
  return std::find(above_.begin(), above_.end(), *current_) != above_.end();
}

void Uplink::hang_up(Id peer, bool with_bye) {
  if (with_bye) out_.send({peer, Side::up}, Bye{Farewell::moved, ""});
  out_.put(HangUp{{peer, Side::up}});
}

void Uplink::route(std::vector<Id> above) {
  bool same = !above.empty() && !above_.empty() && above.front() == above_.front();
  above_ = std::move(above);
  next_ = 1;
  tried_all_ = false;
  if (same) return pursue();
  lost_ = {};
  others_ = false;
  pause_ = options_.redial_first;
  parent_at_ = out_.now;
  for (const Attempt& each : attempts_) {
    if (above_.empty() || each.peer != above_.front()) give_up(each);
  }
  std::erase_if(attempts_, [&](const Attempt& each) { return above_.empty() || each.peer != above_.front(); });
  if (at_parent()) return;
  pursue();
}

void Uplink::dial(Id peer) {
  attempts_.push_back({peer, out_.now + options_.welcome_bound, false});
  out_.wake(attempts_.back().deadline);
  out_.put(Dial{peer});
}

void Uplink::pursue() {
  if (above_.empty()) return;
  Id parent = above_.front();
  if (wants_parent()) {
    if (out_.now >= parent_at_) {
      dial(parent);
    } else {
      out_.wake(parent_at_);
    }
  }
  bool wanted = (!has_feeder_above() && others_) || (starving_ && current_ != above_.back());
  if (!wanted || above_.size() < 2) return;
  Id other = starving_ ? above_.back() : above_[next_];
  bool busy =
      std::any_of(attempts_.begin(), attempts_.end(), [&](const Attempt& each) { return each.peer != parent; });
  if (busy || trying(other)) return;
  if (out_.now >= other_at_) {
    dial(other);
  } else {
    out_.wake(other_at_);
  }
}

bool Uplink::linked(Id peer, bool patient) {
  for (Attempt& each : attempts_) {
    if (each.peer != peer) continue;
    each.is_linked = true;
    each.deadline = patient ? Outbox::kNever : out_.now + options_.welcome_bound;
    return true;
  }
  return false;
}

void Uplink::failed(Id peer) {
  if (!above_.empty() && peer == above_.front()) {
    parent_at_ = out_.now + pause_;
    pause_ = std::min<Time>(2 * pause_, options_.redial_interval);
    others_ = true;
    tried_all_ = tried_all_ || above_.size() == 1;
    lost_.insert(peer);
    return;
  }
  if (++next_ >= above_.size()) {
    next_ = 1;
    tried_all_ = true;
    other_at_ = out_.now + options_.redial_interval;
  }
  if (starving_) other_at_ = out_.now + options_.redial_interval;
}

void Uplink::unlinked(Id peer) {
  auto found =
      std::find_if(attempts_.begin(), attempts_.end(), [&](const Attempt& each) { return each.peer == peer; });
  if (found != attempts_.end()) {
    attempts_.erase(found);
    failed(peer);
  } else if (current_ == peer) {
    bool was_parent = at_parent();
    current_.reset();
    if (was_parent) {
      parent_at_ = out_.now;  // at once, as most links come back
      next_ = 1;
      lost_.insert(peer);
    }
    others_ = others_ || !was_parent;
  } else {
    return;
  }
  pursue();
}

bool Uplink::welcomed(Id peer) {
  auto found =
      std::find_if(attempts_.begin(), attempts_.end(), [&](const Attempt& each) { return each.peer == peer; });
  if (found == attempts_.end()) return current_ == peer;
  attempts_.erase(found);
  bool is_parent = !above_.empty() && peer == above_.front();
  bool is_rescue = starving_ && peer == above_.back();
  if (!is_parent && has_feeder_above() && !is_rescue) {
    hang_up(peer, true);
    return false;
  }
  auto old = std::exchange(current_, peer);
  if (old && *old != peer) hang_up(*old, true);
  if (is_parent) {
    for (const Attempt& each : attempts_) give_up(each);
    attempts_.clear();
    pause_ = options_.redial_first;
    lost_ = {};
    others_ = false;
  }
  pursue();
  return true;
}

void Uplink::drop(Id peer, bool with_bye) {
  hang_up(peer, with_bye);
  unlinked(peer);
}

// Counts as a dial in vain, or two nodes that feed each other would leave and dial at full speed.
void Uplink::leave(Id feeder) {
  hang_up(feeder, true);
  if (current_ == feeder) {
    current_.reset();
    failed(feeder);
  }
  others_ = true;
  pursue();
}

void Uplink::starve(bool starving) {
  if (std::exchange(starving_, starving) == starving) return;
  if (starving) {
    other_at_ = out_.now;
    return pursue();
  }
  if (!current_ || above_.empty()) return pursue();
  Id parent = above_.front();
  for (const Attempt& each : attempts_) {
    if (each.peer != parent) give_up(each);
  }
  std::erase_if(attempts_, [&](const Attempt& each) { return each.peer != parent; });
  pursue();
}

void Uplink::excuse(Time gap) {
  for (Attempt& each : attempts_) Outbox::postpone(each.deadline, gap);
}

void Uplink::tick() {
  std::vector<Id> late;
  for (const Attempt& each : attempts_) {
    if (each.deadline <= out_.now) late.push_back(each.peer);
  }
  for (Id peer : late) drop(peer);
  pursue();
}

Time Uplink::due() const {
  Time due = Outbox::kNever;
  for (const Attempt& each : attempts_) due = std::min(due, each.deadline);
  if (above_.empty()) return due;
  if (wants_parent()) due = std::min(due, std::max(parent_at_, out_.now));
  bool wanted = (!has_feeder_above() && others_) || (starving_ && current_ != above_.back());
  if (wanted && other_at_ > out_.now) due = std::min(due, other_at_);
  return due;
}

void Uplink::stop() {
  for (const Attempt& each : attempts_) give_up(each);
  attempts_.clear();
  above_.clear();
}

// ---- reports ----------------------------------------------------------------------------

void Reports::add_started(const Idset& tasks) {
  Idset fresh = tasks - started_;
  started_.insert(fresh);
  started_unsent_.insert(fresh);
}

void Reports::add_exited(const TaskReport& record) {
  add_started(record.tasks);
  auto found = std::lower_bound(outcomes_.begin(), outcomes_.end(), record.what,
                                [](const auto& a, const Bytes& b) { return a.what < b; });
  if (found == outcomes_.end() || found->what != record.what)
    found = outcomes_.insert(found, {record.what, {}, {}});
  Idset fresh = record.tasks - found->tasks;
  found->tasks.insert(fresh);
  found->unsent.insert(fresh);
}

void Reports::forget_gone(const Idset& ids) {
  gone_ = gone_ - ids;
  gone_taken_ = gone_taken_ - ids;
}

bool Reports::take_unsent(Up& up) {
  up.gone = (gone_ - gone_taken_).take_first(kSplitIds);
  gone_taken_ = gone_taken_ | up.gone;
  up.started = started_unsent_.take_first(kSplitIds);
  bool found = !up.gone.empty() || !up.started.empty();
  std::size_t room = kMaxData;
  for (Outcome& each : outcomes_) {
    while (!each.unsent.empty()) {
      Idset part = each.unsent.take_first(kSplitIds);
      std::size_t size = each.what.size() + part.ranges().size() * 22;  // two numbers as text
      if (found && (size > room || up.exited.size() == kMaxList)) {
        each.unsent.insert(part);
        return true;
      }
      room -= std::min(room, size);
      up.exited.push_back({std::move(part), each.what});
      found = true;
    }
  }
  return found;
}

void Reports::offer_again() {
  gone_taken_ = {};
  started_unsent_ = started_;
  for (Outcome& each : outcomes_) each.unsent = each.tasks;
}

bool Requests::add(const Request& request) {
  if (request.id.number <= answered_.of(request.id.origin)) return false;
  std::deque<Request>& of_origin = pending_[request.id.origin];
  auto place = std::lower_bound(of_origin.begin(), of_origin.end(), request.id.number,
                                [](const Request& each, std::uint64_t number) { return each.id.number < number; });
  if (place != of_origin.end() && place->id.number == request.id.number) return false;
  of_origin.insert(place, request);
  return true;
}

void Requests::answered(RequestId id) {
  if (!answered_.advance(id)) return;
  auto of_origin = pending_.find(id.origin);
  if (of_origin == pending_.end()) return;
  while (!of_origin->second.empty() && of_origin->second.front().id.number <= id.number)
    of_origin->second.pop_front();
  if (of_origin->second.empty()) pending_.erase(of_origin);
}

std::vector<Request> Requests::pending() const {
  std::vector<Request> all;
  for (const auto& [origin, requests] : pending_) all.insert(all.end(), requests.begin(), requests.end());
  return all;
}

}  // namespace nacre::overlay
