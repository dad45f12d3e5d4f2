// SPDX-License-Identifier: Apache-2.0
#include "world.hpp"

namespace nacre::bulk {
namespace {

constexpr std::size_t kMostMembers = 60;
constexpr int kMostRounds = 200'000;

}  // namespace

void World::require(bool holds, const std::string& what) {
  if (!holds) throw Broken{what};
}

std::uint64_t World::any(std::uint64_t least, std::uint64_t most) { return least + random_() % (most - least + 1); }

World::World(std::uint64_t seed) : random_(seed) {
  constexpr std::size_t kSizes[] = {1, 40, 300};
  limits_.record = kSizes[any(0, 2)];
  std::size_t whole = kHead + limits_.record;
  limits_.window = whole * any(1, 12);
  limits_.broadcast = whole * any(1, 8);
  limits_.link = std::max(whole * any(1, 6) + any(0, 20), kHead + 2 * kMaxEndedUp);
  limits_.write = any(1, 2 * whole);
  for (Channel each = 0; each < kChannels; ++each) {
    if (chance(40)) answers_.insert(each);
  }
  slow_leader_ = static_cast<unsigned>(any(0, 2) == 0 ? any(2, 10) : 60);
  slow_owners_ = static_cast<unsigned>(any(0, 2) == 0 ? any(5, 20) : 60);
  slow_writers_ = static_cast<unsigned>(any(0, 2) == 0 ? any(5, 20) : 70);
  faults_ = static_cast<int>(any(0, 24));
  std::size_t size = any(0, 14) == 0 ? any(15, kMostMembers) : any(1, 14);
  broadcasts_ = any(0, 1) == 0 ? kChannels : any(kChannels, 20);
  View view;
  std::uint64_t spread = any(size > 14 ? 10 : 1, 20);  // 1: a chain
  for (Id id = 1; id < size; ++id)
    view.parents[id] = static_cast<Id>(any(id - std::min<std::uint64_t>(id, spread), id - 1));
  views_.push_back(view);
  for (Id id = 0; id < size; ++id) boot(id, false);
}

void World::boot(Id id, bool newcomer) {
  Member& member = members_[id];
  member.node = std::make_unique<BulkNode>(BulkOptions{id, newcomer, limits_, answers_});
  member.newcomer = newcomer;
  member.planned = any(kChannels, 14);
  member.view = views_.size() - 1;
  tell_view(id);
}

void World::run() {
  for (int rounds = 0; rounds < kMostRounds; ++rounds) {
    if (faults_ > 0 && chance(15)) fault();
    if (round(false)) continue;
    if (round(true)) continue;
    if (!stale_view_) return check_end();
    new_view();
  }
  throw Broken{"it does not come to rest"};
}

// ---- the tree ----------------------------------------------------------------------------

// The tree of the living shells: mostly as before.
World::View World::repaired(const View& before) {
  bool shuffle = chance(25);
  View after;
  std::vector<Id> placed{0};
  std::vector<Id> left;
  for (const auto& [id, member] : members_) {
    if (id != 0 && member.node && !member.leaves) left.push_back(id);
  }
  std::shuffle(left.begin(), left.end(), random_);
  while (!left.empty()) {
    bool moved = false;
    for (auto it = left.begin(); it != left.end() && !shuffle;) {  // children stay with their parents
      auto parent = before.parents.find(*it);
      bool stays =
          parent != before.parents.end() && std::find(placed.begin(), placed.end(), parent->second) != placed.end();
      if (!stays) {
        ++it;
        continue;
      }
      after.parents[*it] = parent->second;
      placed.push_back(*it);
      it = left.erase(it);
      moved = true;
    }
    if (moved || left.empty()) continue;
    after.parents[left.back()] = placed[any(0, placed.size() - 1)];
    placed.push_back(left.back());
    left.pop_back();
  }
  return after;
}

void World::new_view() {
  stale_view_ = false;
  views_.push_back(repaired(views_.back()));
  members_[0].view = views_.size() - 1;
  tell_view(0);
}

void World::tell_view(Id id) {
  Member& member = members_[id];
  std::vector<Id> children;
  for (const auto& [child, parent] : views_[member.view].parents) {
    if (parent == id) children.push_back(child);
  }
  member.node->view(member.view, children);
  perform(id);
}

// ---- what happens ------------------------------------------------------------------------

// Does all that can happen, in any order, or without `all` some of it. False: nothing could happen.
bool World::round(bool all) {
  struct Thing {
    bool is_conn;
    std::size_t which;
  };
  std::vector<Thing> things;
  std::erase_if(conns_, [](const auto& each) {
    return each.second.accepted && !each.second.open[0] && !each.second.open[1];
  });
  for (const auto& [index, conn] : conns_) things.push_back({true, index});
  for (const auto& [id, member] : members_) {
    if (member.node) things.push_back({false, id});
  }
  std::shuffle(things.begin(), things.end(), random_);
  bool moved = false;
  for (const Thing& each : things) {
    if (!all && chance(40)) continue;
    moved = (each.is_conn ? step_conn(each.which) : step_member(static_cast<Id>(each.which))) || moved;
  }
  if (all || chance(slow_leader_)) moved = take() || moved;
  if (all || chance(slow_writers_)) moved = broadcast() || moved;
  if (!stale_view_ || !chance(20)) return moved;
  new_view();
  return true;
}

bool World::step_conn(std::size_t index) {
  bool moved = accept(index);
  Conn& conn = conns_[index];
  for (int times = 0; times < 3; ++times) {
    int way = static_cast<int>(any(0, 1));
    int stream = static_cast<int>(any(0, 1));
    moved = push(conn, way, stream) || moved;
    moved = arrive(index, static_cast<int>(any(0, 1)), static_cast<int>(any(0, 1))) || moved;
  }
  if (moved) return true;
  for (int which = 0; which < 4; ++which) {
    moved = push(conn, which / 2, which % 2) || moved;
    moved = arrive(index, which / 2, which % 2) || moved;
  }
  return notice(index, 0) || notice(index, 1) || moved;
}

bool World::accept(std::size_t index) {
  Conn& conn = conns_[index];
  Id parent = conn.ends[1];
  if (conn.accepted) return false;
  conn.accepted = true;
  if (!members_[parent].node) return true;
  std::size_t before = find(parent, {conn.ends[0], Side::down});
  if (before != kNone) conns_[before].open[1] = false;
  conn.open[1] = true;
  members_[parent].node->child_up(conn.ends[0]);
  perform(parent);
  return true;
}

bool World::push(Conn& conn, int way, int stream) {
  Flow& flow = conn.flows[way][stream];
  if (!conn.open[way] || !flow.busy) return false;
  std::size_t size = std::min(flow.waiting.size(), flow.credit);
  if (size == 0) return false;
  size = any(1, size);
  flow.wire += flow.waiting.substr(0, size);
  flow.waiting.erase(0, size);
  flow.credit -= size;
  if (!flow.waiting.empty()) return true;
  flow.busy = false;
  Id from = conn.ends[way];
  members_[from].node->written({conn.ends[1 - way], way == 0 ? Side::up : Side::down},
                               stream == 0 ? kNotes : kRecords);
  perform(from);
  return true;
}

bool World::arrive(std::size_t index, int way, int stream) {
  Conn& conn = conns_[index];
  Flow& flow = conn.flows[way][stream];
  int side = 1 - way;
  if (!conn.open[side] || flow.wire.empty()) return false;
  std::size_t size = chance(50) ? flow.wire.size() : any(1, flow.wire.size());
  std::string bytes = flow.wire.substr(0, size);
  flow.wire.erase(0, size);
  Id to = conn.ends[side];
  LinkName from{conn.ends[way], side == 0 ? Side::up : Side::down};
  receiving_ = index;
  auto done = members_[to].node->received(from, stream == 0 ? kNotes : kRecords, bytes);
  if (!done) throw Broken{fmt::format("shell {}: {}", to, done.error().message)};
  perform(to);
  receiving_ = kNone;
  return true;
}

// The other end has gone, and all that still came has been read.
bool World::notice(std::size_t index, int side) {
  Conn& conn = conns_[index];
  if (!conn.accepted || !conn.open[side] || conn.open[1 - side]) return false;
  for (const Flow& flow : conn.flows[1 - side]) {
    if (!flow.wire.empty()) return false;
  }
  shut(index, side);
  return true;
}

void World::shut(std::size_t index, int side) {
  Conn& conn = conns_[index];
  conn.open[side] = false;
  BulkNode& node = *members_[conn.ends[side]].node;
  side == 0 ? node.no_up() : node.child_gone(conn.ends[0]);
  perform(conn.ends[side]);
}

bool World::step_member(Id id) {
  Member& member = members_[id];
  bool moved = false;
  if (member.view + 1 < views_.size() && chance(30)) {
    ++member.view;
    bool stays = id == 0 || views_[member.view].parents.contains(id);
    if (stays) tell_view(id);
    moved = true;
  }
  moved = moved || member.view + 1 < views_.size();
  moved = connect(id) || moved;
  moved = put(id) || moved;
  if (member.waits) {
    moved = true;
    if (chance(30)) {
      member.waits = false;
      member.node->waited();
      perform(id);
    }
  }
  return hear(id) || moved;
}

// Connects to the parent in its view; while that is dead, to a shell above it.
bool World::connect(Id id) {
  const auto& parents = views_[members_[id].view].parents;
  auto parent = parents.find(id);
  if (id == 0) return false;
  Id to = parent == parents.end() ? 0 : parent->second;  // a shell that leaves can only connect to the leader
  while (!members_[to].node) to = parents.at(to);
  std::size_t before = kNone;
  for (const auto& [index, conn] : conns_) {
    if (conn.ends[0] == id && conn.open[0]) before = index;
  }
  if (before != kNone) {
    Id now = conns_[before].ends[1];
    bool is_parent = parent != parents.end() && to == parent->second;
    if (now == to || (!is_parent && chance(80))) return false;
    conns_[before].open[0] = false;
  }
  Conn conn;
  conn.ends[0] = id;
  conn.ends[1] = to;
  conns_[next_conn_++] = conn;
  members_[id].node->up(to);
  perform(id);
  return true;
}

bool World::put(Id id) {
  Member& member = members_[id];
  if (member.full || member.put == member.planned || !chance(slow_writers_))
    return member.put < member.planned && !member.full;
  Numbered number = member.put + 1;
  Channel channel = channel_of(number);
  if (is_end(number, member.planned)) {
    require(member.node->end(channel).has_value(), "an end is always taken");
    require(!member.node->end(channel) && !member.node->put(channel, "x"), "a channel ends once");
  } else {
    auto taken = member.node->put(channel, content_of(id, number, limits_.record));
    require(taken.has_value(), "what may be put is taken");
    member.full = !*taken;
    if (member.full) return true;
  }
  member.put = number;
  member.drained = false;
  perform(id);
  return true;
}

bool World::broadcast() {
  if (broadcast_full_ || broadcast_ == broadcasts_) return false;
  Numbered number = broadcast_ + 1;
  BulkNode& node = *members_[0].node;
  if (is_end(number, broadcasts_)) {
    require(node.end_broadcast(channel_of(number)).has_value(), "an end is always taken");
  } else {
    auto taken = node.broadcast(channel_of(number), content_of(kBroadcaster, number, limits_.record));
    require(taken.has_value(), "what may be broadcast is taken");
    broadcast_full_ = !*taken;
    if (broadcast_full_) return true;
  }
  broadcast_ = number;
  perform(0);
  return true;
}

bool World::take() {
  if (pending_.empty()) return false;
  Pending each = pending_.front();
  pending_.pop_front();
  if (auto found = conns_.find(each.conn); found != conns_.end()) found->second.untaken -= each.bytes;
  members_[0].node->taken(each.origin, each.number);
  perform(0);
  return true;
}

bool World::hear(Id id) {
  Member& member = members_[id];
  if (member.heard >= member.announced) return false;
  if (!chance(slow_owners_)) return true;
  member.heard = any(member.heard + 1, member.announced);
  member.node->consumed(member.heard);
  perform(id);
  return true;
}

// ---- what goes wrong ---------------------------------------------------------------------

void World::fault() {
  --faults_;
  std::vector<Id> alive;
  for (const auto& [id, member] : members_) {
    if (id != 0 && member.node) alive.push_back(id);
  }
  auto what = any(0, 9);
  if (what < 5 && !conns_.empty())
    return cut(std::next(conns_.begin(), static_cast<std::ptrdiff_t>(any(0, conns_.size() - 1)))->first);
  if (what < 7 && !alive.empty()) return kill(alive[any(0, alive.size() - 1)]);
  if (what == 7 && members_.size() < kMostMembers) {
    Id id = members_.rbegin()->first + 1;
    members_[id].node =
        std::make_unique<BulkNode>(BulkOptions{id, true, limits_, answers_});  // so that the view has it
    new_view();
    return boot(id, true);
  }
  if (what == 8 && !alive.empty()) members_[alive[any(0, alive.size() - 1)]].leaves = true;
  new_view();
}

void World::cut(std::size_t index) {
  Conn& conn = conns_[index];
  for (auto& way : conn.flows) {
    for (Flow& flow : way) flow.wire.resize(any(0, flow.wire.size()));  // a beginning may still come
  }
  if (!conn.accepted) return;
  int first = static_cast<int>(any(0, 1));
  if (conn.open[first]) shut(index, first);
}

void World::kill(Id id) {
  members_[id].node.reset();
  for (auto& [index, conn] : conns_) {
    for (int side = 0; side < 2; ++side) {
      if (conn.ends[side] != id || !conn.open[side]) continue;
      conn.open[side] = false;
      for (Flow& flow : conn.flows[side]) flow.wire.resize(any(0, flow.wire.size()));
    }
  }
  stale_view_ = true;
}

}  // namespace nacre::bulk
