// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"

#include "brief.hpp"
#include "values.hpp"

namespace nacre::sim {

void Check::begin(std::uint32_t members, std::uint32_t arity, Time bound, bool hands_over) {
  arity_ = arity;
  hands_over_ = hands_over;
  bound_ = bound;
  auto& slots = views_[0];
  for (Id id = 0; id < members; ++id) {
    slots.push_back(id);
    joined_[id] = 0;
    of(id).joined = true;
    of(id).tasks = true;
  }
}

Account& Check::of(Id id) {
  if (id >= accounts_.size()) accounts_.resize(id + 1);
  return accounts_[id];
}

// ---- each entry, at each host ------------------------------------------------------------

void Check::delivered(Id id, Seq seq) {
  Account& host = of(id);
  const Entry* entry = world_.hosts[id].node->entry(seq);
  require(entry != nullptr, fmt::format("{}: entry {} is delivered and not there", id, seq));
  require(seq == host.delivered + 1, fmt::format("{}: entry {} after {}", id, seq, host.delivered));
  host.delivered = seq;
  if (hands_over_) {
    host.entries.push_back(*entry);
    host.has_end = host.has_end || std::holds_alternative<End>(entry->body);
    const bool is_shown = std::holds_alternative<View>(entry->body) || std::holds_alternative<Event>(entry->body) ||
                          std::holds_alternative<Exec>(entry->body);
    const Node& node = *world_.hosts[id].node;
    const bool is_own = node.leads() && node.log().term_of(seq) == node.term();
    const bool is_early = is_own && is_shown && seq > log_.size();
    require(!is_early, fmt::format("{} leads, and shows entry {} before all have it", id, seq));
    host.parted = host.parted || (seq <= log_.size() && log_[seq - 1] != *entry);
    return;
  }
  if (id == 0) {
    require(log_.size() + 1 == seq, fmt::format("the leader appends {} after {}", seq, log_.size()));
    log_.push_back(*entry);
    return lead(*entry);
  }
  require(seq <= log_.size(), fmt::format("{}: entry {} is not in the leader's log", id, seq));
  require(*entry == log_[seq - 1], fmt::format("{}: entry {} is not the leader's", id, seq));
  if (!std::holds_alternative<Exec>(entry->body)) return;
  const auto& members = std::prev(views_.upper_bound(seq))->second;
  bool is_member = std::find(members.begin(), members.end(), id) != members.end();
  require(is_member, fmt::format("EXEC {} reaches {}, which is no member", seq, id));
}

const Entry* Check::entry_of(Id id, Seq seq) {
  const Account& host = of(id);
  const Seq before = host.delivered - host.entries.size();
  return seq > before && seq <= host.delivered ? &host.entries[seq - before - 1] : nullptr;
}

// Entries that all members have stay in the log, whichever member leads later.
void Check::take_log(Id leader, Seq seq) {
  for (Seq each = log_.size() + 1; each <= seq; ++each) {
    const Entry* entry = world_.hosts[leader].node->entry(each);
    if (entry == nullptr) entry = entry_of(leader, each);
    for (Id id : members()) {  // a leader that has joined later lacks earlier entries
      if (entry == nullptr && !of(id).parted) entry = entry_of(id, each);
      if (entry == nullptr && world_.hosts[id].node) entry = world_.hosts[id].node->entry(each);
    }
    require(entry != nullptr, fmt::format("entry {} is complete, and its leader {} lacks it", each, leader));
    log_.push_back(*entry);
    lead(log_.back());
    for (Id id = 0; id < accounts_.size(); ++id) {
      const Entry* other = entry_of(id, each);
      if (other != nullptr && *other != log_.back()) of(id).parted = true;
    }
  }
  const Entry* last = entry_of(leader, seq);
  require(last == nullptr || *last == log_[seq - 1],
          fmt::format("{} leads, and has other entries than were complete", leader));
}

void Check::lead(const Entry& entry) {
  world_.say(fmt::format("+ {}", brief(entry)));
  require(!ended_, "an entry after END");
  bool is_campaign = std::holds_alternative<Campaign>(entry.body);
  if (entry.request.number != 0 && !is_campaign) {
    bool first = answered_.emplace(entry.request.origin, entry.request.number).second;
    require(first, fmt::format("request {} of {} acts twice", entry.request.number, entry.request.origin));
  }
  ended_ = std::holds_alternative<End>(entry.body);
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { lead(entry, body); }) lead(entry, body);
      },
      entry.body);
}

void Check::lead(const Entry& entry, const View& change) {
  std::vector<Id> slots = members();
  if (change.leader != slots.front()) {
    auto at = std::find(slots.begin(), slots.end(), change.leader);
    require(at != slots.end(), fmt::format("{} leads and is no member", change.leader));
    std::swap(*at, slots.front());
    ++leaders;
  }
  for (Id id : (change.leave | change.dead).ids()) {
    auto at = std::find(slots.begin(), slots.end(), id);
    require(at != slots.end() && id != change.leader, fmt::format("{} is taken out and is no member", id));
    *at = slots.back();
    slots.pop_back();
    watch_tasks(id, bound_);
  }
  for (Id id : change.dead.ids()) {
    ++deaths;
    bool faulty = of(id).faulty || world_.hosts[id].over;
    require(faulty, fmt::format("{} is declared dead, and nothing was done to it", id));
  }
  Idset added;
  for (const Newcomer& each : change.add) {
    slots.push_back(each.id);
    joined_[each.id] = entry.seq;
    Account& host = of(each.id);
    if (host.delivered == 0) host.delivered = entry.seq;  // its snapshot stands for earlier entries
    added.insert(each.id);
  }
  views_[entry.seq] = std::move(slots);
  Key key(entry.request.origin, entry.request.number);
  if (!change.leave.empty()) open_[key] = {false, entry.seq, change.leave};
  if (!change.add.empty()) open_[key] = {true, entry.seq, added};
}

bool Check::is_member(Id id) const { return std::find(members().begin(), members().end(), id) != members().end(); }

void Check::lead(const Entry& entry, const Exec& exec) {
  Idset ranks;
  for (const RankShare& each : exec.map) {
    require(is_member(each.member), fmt::format("EXEC {} names {}, which is no member", entry.seq, each.member));
    require((ranks & each.ranks).empty(), "EXEC gives a rank twice");
    ranks = ranks | each.ranks;
  }
  Idset asked;
  auto request = asked_.find({entry.request.origin, entry.request.number});
  require(request != asked_.end(), "EXEC of nobody");
  const auto& wanted = std::get<Exec>(request->second);
  for (const RankShare& each : wanted.map) asked = asked | each.ranks;
  require(asked == ranks, "EXEC starts other ranks than were asked for");
  bool is_same = exec.command == wanted.command && exec.strict == wanted.strict && exec.kind == wanted.kind;
  require(is_same, "EXEC is another than was asked for");
  require(!exec.strict || exec.map == wanted.map, "a strict EXEC goes to others than were asked");
}

void Check::lead(const Entry& entry, const Refused& refused) {
  auto request = asked_.find({entry.request.origin, entry.request.number});
  require(request != asked_.end(), "REFUSED to nobody");
  const auto* exec = std::get_if<Exec>(&request->second);
  if (exec == nullptr) return;
  Idset lost;
  for (const RankShare& each : exec->map) {
    if (!is_member(each.member)) lost.insert(each.member);
  }
  require(exec->strict && !lost.empty(), "an EXEC is refused, and all that it needs are there");
  require(refused.members == lost,
          fmt::format("an EXEC is refused for {}, not {}", refused.members.str(), lost.str()));
}

void Check::lead(const Entry& entry, const Campaign& end) {
  Key key(entry.request.origin, entry.request.number);
  require(over_.insert(key).second, "a campaign ends twice");
  ++campaigns;
  require((end.done & end.unconfirmed).empty(), "a campaign's end names one both ways");
  auto found = open_.find(key);
  if (found == open_.end()) {
    require(end.grow && end.view == 0 && end.done.empty(), "the end of a campaign that has not begun");
    return;
  }
  require(found->second.grow == end.grow && found->second.view == end.view, "the end of another campaign");
  // A grow also names members that never came.
  bool all = end.grow ? (found->second.targets - (end.done | end.unconfirmed)).empty()
                      : found->second.targets == (end.done | end.unconfirmed);
  require(all, "a campaign's end does not name its targets");
  for (Id id : end.done.ids()) {
    if (end.grow) {
      require(of(id).joined, fmt::format("{} has not joined when its campaign ends", id));
    } else {
      const Host& host = world_.hosts[id];
      const bool is_lost = host.life == Life::crashed || host.life == Life::dark;
      bool gone = !of(id).tasks && (is_lost || (host.over && (host.ended || host.lost_link)));
      require(gone, fmt::format("{} has not gone when its campaign ends", id));
    }
  }
  open_.erase(found);
}

void Check::watch_tasks(Id id, Time bound) {
  world_.at(world_.now + bound, [this, id] {
    const Host& host = world_.hosts[id];
    if (host.life == Life::frozen) return watch_tasks(id, bound_);
    // A host that was frozen has a hello bound to hear a beat.
    Time awake = host.thawed + OverlayOptions().hello_bound + kSlack;
    if (host.thawed > Time(0) && world_.now < awake) return watch_tasks(id, awake - world_.now);
    bool runs = of(id).tasks && host.life == Life::up;
    require(!runs, fmt::format("tasks run on {} after the bound, and it is no member", id));
  });
}

// ---- collectives -------------------------------------------------------------------------

Own Check::part_of(const std::string& name, Merge merge, Id id) {
  if (merge == Merge::max || merge == Merge::sum) return std::int64_t{id} * 3 + 1;
  return fmt::format("{}/{}", name, id % 3);
}

Value Check::expected(const std::string& name, Merge merge, Scope scope, const std::vector<Id>& members) const {
  std::int64_t sum = 0;
  std::int64_t most = INT64_MIN;
  Gathered gathered;
  Unique unique;
  for (Id id : members) {
    Seq joined = joined_.at(id);
    if (joined < scope.from || joined > scope.to) continue;
    require(accounts_.at(id).entered.contains(name), fmt::format("{} ends without {}", name, id));
    Own part = part_of(name, merge, id);
    if (const auto* number = std::get_if<std::int64_t>(&part)) {
      sum += *number;
      most = std::max(most, *number);
    } else {
      gathered[std::get<Bytes>(part)].insert(id);
      unique.insert(std::get<Bytes>(part));
    }
  }
  switch (merge) {
    case Merge::gather: return gathered;
    case Merge::set: return unique;
    case Merge::max: return most;
    default: return sum;
  }
}

void Check::lead(const Entry& /*entry*/, const Release& piece) {
  if (piece.at + piece.data.size() < piece.total) return;
  ++releases;
  Value value = expected(piece.name, piece.merge, piece.scope, members());
  require(values_.emplace(piece.name, value).second, piece.name + " is released twice");
  if (piece.at == 0) require(encode_value(value) == piece.data, piece.name + " is not what its members make");
}

void Check::lead(const Entry& /*entry*/, const Promise& promise) {
  ++releases;
  Value value = expected(promise.name, promise.merge, promise.scope, members());
  require(values_.emplace(promise.name, value).second, promise.name + " is released twice");
  Bytes encoded = encode_value(value);
  bool fits = promise.size == encoded.size() && promise.digest == digest_of(encoded);
  require(fits, promise.name + " is not what its members make");
}

void Check::released(Id id, const Released& value) {
  auto found = values_.find(value.name);
  if (hands_over_ && (found == values_.end() || of(id).parted)) return;  // the collective is not complete yet
  require(found != values_.end(), value.name + " is released, and not by the leader");
  require(found->second == value.value, fmt::format("{}: {} has another value", value.name, id));
}

// ---- after each step ---------------------------------------------------------------------

void Check::completed(Id leader, Seq seq) {
  if (hands_over_) take_log(leader, seq);
  for (Id id : members()) {
    bool lost_at_the_end = ended_ && of(id).faulty;
    const bool is_told_next = hands_over_ && id == leader;
    require((of(id).joined && of(id).delivered >= seq && !of(id).parted) || lost_at_the_end || is_told_next,
            fmt::format("entry {} is complete, and {} has {}", seq, id, of(id).delivered));
  }
}

void Check::died(Id id, const std::string& why) {
  bool is_member = std::find(members().begin(), members().end(), id) != members().end();
  bool excused = of(id).faulty || !is_member || ended_;
  excused = excused || (hands_over_ ? of(id).parted || !has_majority_without_fault() : of(0).faulty);
  require(excused, fmt::format("{} dies, and nothing was done to it: {}", id, why));
}

bool Check::has_majority_without_fault() {
  auto sound = std::count_if(members().begin(), members().end(), [&](Id id) {
    const Host& host = world_.hosts[id];
    return !of(id).faulty && !of(id).was_busy && host.node && !host.leaves;
  });
  return 2 * static_cast<std::size_t>(sound) > members().size();
}

void Check::hung_up(Id id, LinkName link) {
  if (link.side == Side::up) of(id).let_go = true;
}

void Check::stepped(Id id) {
  const Node& node = *world_.hosts[id].node;
  if (node.leads()) {
    const Id first = leader_of_.emplace(node.term(), id).first->second;
    require(first == id, fmt::format("{} and {} lead in term {}", first, id, node.term()));
  }
  Account& host = of(id);
  if (node.feeder()) host.was_fed = true;
  bool gave_up =
      std::exchange(host.let_go, false) && host.was_fed && !node.feeder() && node.stage() == Stage::member;
  if (!node.feeder()) host.was_fed = false;
  require(!gave_up || host.faulty || hands_over_, fmt::format("{} gives up who feeds it before another does", id));
  Seq floor = node.log().first();
  if (host.joined && floor > host.floor) {
    host.floor = floor;
    for (; safe_floor_ < floor; safe_floor_ = floor) {
      for (Id each : members()) {
        bool needs = of(each).delivered + 1 < floor && !world_.hosts[each].over && !of(each).parted;
        require(!needs, fmt::format("{} drops entry {}, and {} has {}", id, floor - 1, each, of(each).delivered));
      }
      for (const auto& [key, campaign] : open_) {
        if (campaign.grow || hands_over_)
          continue;  // the order may have ended, and not all members have that
                     // entry
        for (Id each : campaign.targets.ids()) {
          bool needs = of(each).delivered + 1 < floor && of(each).delivered < campaign.view && world_.lives(each);
          require(!needs, fmt::format("{} drops entry {}, and {}, which leaves, has {}", id, floor - 1, each,
                                      of(each).delivered));
        }
      }
    }
  }
  if (node.view() == host.seen_view || node.stage() != Stage::member) return;
  auto found = views_.find(node.view());
  if (hands_over_ && (found == views_.end() || host.parted)) return;
  const Entry* of_view = node.entry(node.view());
  const bool is_other =
      of_view != nullptr ? *of_view != log_[node.view() - 1] : node.tree().leader() != found->second.front();
  if (hands_over_ && node.view() > 0 && is_other) return;  // from a lost leader
  host.seen_view = node.view();
  require(found != views_.end(), fmt::format("{} has a view that the leader did not make", id));
  const auto& slots = found->second;
  const Tree& tree = node.tree();
  require(tree.size() == slots.size(), fmt::format("{}: a tree of {}, not {}", id, tree.size(), slots.size()));
  std::uint64_t reach = 1;  // of a tree of the depth `most`
  std::uint32_t most = 0;
  for (; reach < slots.size(); reach *= arity_) ++most;
  for (Slot slot = 0; slot < slots.size(); ++slot) {
    require(tree.at(slot) == slots[slot] && tree.slot_of(slots[slot]) == slot,
            fmt::format("{}: another member in slot {} of view {}", id, slot, node.view()));
  }
  require(tree.depth(slots.back()) <= most, fmt::format("{}: the tree is too deep", id));
}

// All members end with the leader, if none can follow it.
void Check::rest_without_leader() {
  for (Id id = 0; id < world_.hosts.size(); ++id) {
    require(!world_.lives(id), fmt::format("the leader is lost, and {} goes on", id));
    require(!of(id).tasks || world_.hosts[id].life != Life::up, fmt::format("tasks run on {} without a job", id));
  }
  require(!hands_over_ || ended_ || !has_majority_without_fault(), "most members could go on, and the job is over");
}

void Check::at_rest() {
  std::vector<Id> leading;
  for (Id id = 0; id < world_.hosts.size(); ++id) {
    if (world_.lives(id) && world_.hosts[id].node->leads()) leading.push_back(id);
  }
  if (leading.empty()) return rest_without_leader();
  require(leading.size() == 1, "two lead the job");
  rest(*world_.hosts[leading.front()].node);
}

void Check::rest(const Node& head) {
  require(log_.size() == head.applied(), "at rest the leader has an entry that others lack");
  require(head.campaigns().empty(), "at rest a campaign is open");
  require(head.complete() == head.applied(),
          fmt::format("at rest {} of {} entries are complete", head.complete(), head.applied()));
  for (Id id = 0; id < world_.hosts.size(); ++id) {
    bool is_member = std::find(members().begin(), members().end(), id) != members().end();
    require(
        is_member == world_.lives(id),
        fmt::format("at rest {} {}", id, is_member ? "is a member and does not live" : "lives and is no member"));
    if (!is_member) continue;
    const Node& node = *world_.hosts[id].node;
    require(node.applied() == head.applied(), fmt::format("at rest {} lacks entries", id));
    require(node.collectives().empty(), fmt::format("at rest {} has a collective open: {}", id,
                                                    node.collectives().empty() ? "" : node.collectives()[0].name));
    require(node.pending().empty(), fmt::format("at rest {} has a request that nobody answers", id));
    require(node.settled(), fmt::format("at rest {} is not fed by its parent", id));
  }
  for (const auto& [key, body] : asked_) {
    bool is_member = std::find(members().begin(), members().end(), key.first) != members().end();
    bool done = answered_.contains(key) || over_.contains(key);
    const bool ends_with_leader = leaders > 1 && std::holds_alternative<Grow>(body);  // the order waits in no log
    require(done || !is_member || ends_with_leader,
            fmt::format("request {} of {} is never answered", key.second, key.first));
  }
  for (const auto& [key, campaign] : open_)
    require(false, fmt::format("the campaign of view {} never ends", campaign.view));
}

}  // namespace nacre::sim
