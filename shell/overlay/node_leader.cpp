// SPDX-License-Identifier: Apache-2.0
//
// The leader's decisions: each one is an entry.
#include <algorithm>

#include <fmt/format.h>

#include "overlay/node.hpp"
#include "overlay/wire.hpp"

namespace nacre::overlay {

void Node::append(RequestId request, EntryBody body) { accept({applied() + 1, request, std::move(body)}); }

// Runs at the end of every call: appends what is due, until nothing more is.
void Node::lead() {
  bool changed = true;
  while (changed && end_ == 0) {
    changed = bury();
    changed = seat_newcomers() || changed;
    changed = release_collectives() || changed;
    note_complete();
    while (auto end = campaigns_.over(out_.now, complete_, reports_.gone(), tree_)) {
      append(end->first, std::move(end->second));
      changed = true;
    }
  }
  note_complete();
  report();
  out_.wake(campaigns_.due(out_.now));
  if (end_ == 0 || complete_ < end_) return;
  stage_ = Stage::over;
  out_.put(Finished{child_table_.lost()});
}

void Node::note_complete() {
  Seq all = acked();
  if (all <= complete_) return;
  complete_ = all;
  out_.put(Completed{all});
}

bool Node::bury() {
  View change;
  // No beat reaches a member but from the leader. If the leader could send none for so long, all others
  // have ended by rule 10.
  bool is_alone = tree_.size() > 1 && out_.now >= fed_at_ + options_.fence + options_.beat_interval;
  Idset suspects = is_alone ? Idset::range(0, Idset::kMaxId) : child_table_.suspects(tree_);
  for (Id id : tree_.members_of(suspects)) {
    if (id != options_.self) change.dead.insert(id);
  }
  if (change.dead.empty()) return false;
  change.dead = change.dead.take_first(kSplitIds);  // the others are found again
  if (!is_alone) ended_ = ended_ | (child_table_.ended(tree_) & change.dead);
  append({}, std::move(change));
  return true;
}

bool Node::seat_newcomers() {
  bool changed = false;
  for (OpenCampaign& each : campaigns_.open()) {
    if (!each.grow || each.view != 0) continue;
    View change;
    Idset waits_for = each.targets - each.missing;
    for (const DownLink& down : child_table_.down_links()) {
      if (!down.knocks || !each.targets.contains(down.peer)) continue;
      change.add.push_back({down.peer, down.address});
      waits_for.remove(down.peer);
    }
    if (!waits_for.empty() && out_.now < each.deadline) continue;
    changed = true;
    if (change.add.empty()) {
      append(each.request, Campaign{true, 0, {}, each.targets});
      each.targets = {};
      continue;
    }
    append(each.request, change);
    each.view = applied();
    welcome_newcomers(change);
  }
  std::erase_if(campaigns_.open(), [](const OpenCampaign& each) { return each.targets.empty(); });
  return changed;
}

void Node::welcome_newcomers(const View& change) {
  Snapshot snapshot;
  tree_.write(snapshot);
  snapshot.leaving = leaving_;
  snapshot.answered = requests_.all_answered();
  for (const Newcomer& each : change.add) {
    DownLink* down = child_table_.down(each.id);
    down->knocks = false;
    down->fed = applied();
    child_table_.welcome(*down);
    out_.send({each.id, Side::down}, Welcome{applied(), view_, snapshot});
  }
}

bool Node::release_collectives() {
  auto found = std::find_if(collectives_.begin(), collectives_.end(),
                            [&](Collective& each) { return std::exchange(each.changed, false) && is_whole(each); });
  if (found == collectives_.end()) return false;
  Collective whole = std::move(*found);
  collectives_.erase(found);
  Value value = merged(whole.merge, std::move(whole.own), std::move(whole.below));
  Bytes encoded = encode_value(value);
  if (overflows(whole, encoded.size())) return true;
  if (auto digest = digest_of(encoded, whole.scope)) {
    append({}, Promise{whole.name, whole.scope, whole.merge, encoded.size(), *std::move(digest)});
    out_.put(Publish{applied(), std::move(encoded)});
    if (tree_.in(options_.self, whole.scope)) out_.put(Released{whole.name, whole.merge, std::move(value)});
    return true;
  }
  value = {};
  cut(encoded, options_.piece, [&](std::size_t at, std::size_t total, Bytes data) {
    append({}, Release{whole.name, whole.scope, whole.merge, at, total, std::move(data)});
  });
  return true;
}

// None: the value goes in the log. A newcomer needs it there, as it does not get what was published before it is
// fed.
std::optional<Bytes> Node::digest_of(const Bytes& encoded, Scope scope) {
  if (encoded.size() <= options_.max_logged || !options_.digest) return std::nullopt;
  if (tree_.any_in(0, {std::max(scope.from, Seq{1}), scope.to})) return std::nullopt;
  auto digest = options_.digest(encoded);
  if (digest) return *std::move(digest);
  out_.put(Note{digest.error().message});
  return std::nullopt;
}

// Only the first record of a task counts.
void Node::report() {
  Up unsent;
  while (reports_.take_unsent(unsent)) {
    Reported reported{unsent.started, {}};
    for (TaskReport& each : unsent.exited) {
      each.tasks = each.tasks - exited_;
      exited_.insert(each.tasks);
      if (!each.tasks.empty()) reported.exited.push_back(std::move(each));
    }
    unsent = {};
    if (!reported.started.empty() || !reported.exited.empty()) out_.put(std::move(reported));
  }
}

// ---- requests ----------------------------------------------------------------------------

void Node::accept_request(const Request& request) {
  if (end_ != 0 || !campaigns_.take(request.id)) return;
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { answer(request.id, body); }) {
          answer(request.id, body);
        } else {
          append(request.id, body);
        }
      },
      request.body);
}

void Node::answer(RequestId id, const Exec& body) {
  if (body.strict) {
    Idset lost = not_members(body.map, tree_);
    if (!lost.empty()) return append(id, Refused{"exec: a shell that it names is not of the job any more", lost});
  }
  Exec mapped{view_, remap(body.map, tree_), body.command, body.strict, body.kind};
  // Where ranks go to others, their text becomes longer.
  auto frame = encode({out_.job, out_.term, Entry{applied() + 1, id, mapped}});
  Result<Message> fits = frame ? decode(*frame) : Result<Message>(std::move(frame).error());
  if (!fits) return append(id, Refused{"exec: " + fits.error().message.substr(0, kMaxText / 2), {}});
  append(id, std::move(mapped));
}

void Node::answer(RequestId id, const Shrink& body) {
  if (body.leave.contains(options_.self)) return append(id, Refused{"shrink: the leader cannot leave", {}});
  View change;
  for (Id each : tree_.members_of(body.leave)) change.leave.insert(each);
  if (change.leave.empty()) return append(id, Refused{"shrink: none of these is a member", {}});
  Idset targets = change.leave;
  Seq hold = complete_;
  append(id, std::move(change));
  campaigns_.open({id, false, applied(), hold, std::move(targets), out_.now + options_.campaign_bound, {}});
}

void Node::answer(RequestId id, const Grow& body) {
  if (body.add.empty()) return append(id, Refused{"grow: no members named", {}});
  if (body.add.size() > kMaxNewcomers) {
    return append(id, Refused{fmt::format("grow: {} at once; at most {}", body.add.size(), kMaxNewcomers), {}});
  }
  for (Id each : body.add.ids()) {
    bool used = each < options_.members || tree_.joined(each) != 0 || campaigns_.awaits(each);
    if (used) return append(id, Refused{fmt::format("grow: {} is in use, or was", each), {}});
  }
  campaigns_.open({id, true, 0, 0, body.add, out_.now + milliseconds(body.wait), {}});
}

}  // namespace nacre::overlay
