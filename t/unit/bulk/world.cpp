// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

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

// What the nodes of a world ask for, and what has to hold.

std::string content_of(Id origin, Numbered number, std::size_t most) {
  std::size_t size = 1 + (origin * 31 + number * 17) % most;
  std::string out = fmt::format("{}.{}:", origin, number);
  while (out.size() < size) out += static_cast<char>('a' + (out.size() + number) % 26);
  out.resize(size);
  return out;
}

// ---- what the nodes ask for --------------------------------------------------------------

std::size_t World::find(Id id, LinkName link) const {
  int side = link.side == Side::up ? 0 : 1;
  for (const auto& [index, conn] : conns_) {
    if (conn.open[side] && conn.ends[side] == id && conn.ends[1 - side] == link.peer) return index;
  }
  return kNone;
}

void World::perform(Id id) {
  for (const BulkEffect& effect : members_[id].node->take_effects()) {
    Member& member = members_[id];
    if (const auto* write = std::get_if<Write>(&effect)) perform(id, *write);
    if (const auto* grant = std::get_if<Grant>(&effect)) perform(id, *grant);
    if (const auto* deliver = std::get_if<DeliverRecord>(&effect)) perform(id, *deliver);
    if (const auto* announce = std::get_if<Announce>(&effect)) perform(id, *announce);
    if (std::holds_alternative<Room>(effect)) require(std::exchange(member.full, false), "room that was wanted");
    if (std::holds_alternative<BroadcastRoom>(effect)) {
      require(std::exchange(broadcast_full_, false), "room that was wanted");
    }
    if (std::holds_alternative<Drained>(effect)) member.drained = true;
    if (std::holds_alternative<WaitForMore>(effect)) member.waits = true;
    if (std::holds_alternative<CutOff>(effect)) {
      require(member.leaves, fmt::format("shell {}: it is cut off from the broadcast", id));
    }
  }
  check_bounds(id);
}

void World::perform(Id id, const Write& write) {
  std::size_t index = find(id, write.to);
  require(index != kNone, fmt::format("shell {} writes to {}, which is not there", id, write.to.peer));
  int way = write.to.side == Side::up ? 0 : 1;
  Flow& flow = conns_[index].flows[way][write.stream == kNotes ? 0 : 1];
  require(!flow.busy && !write.bytes.empty(), "one Write at a time");
  require(write.bytes.size() <= limits_.write + kHead + std::max<std::size_t>(limits_.record, 2 * kChannels),
          "a Write of a bounded size");
  flow.waiting = write.bytes;
  flow.busy = true;
}

void World::perform(Id id, const Grant& grant) {
  std::size_t index = find(id, grant.to);
  require(index != kNone && grant.bytes > 0, "credit for a link that is there");
  int way = grant.to.side == Side::up ? 1 : 0;
  conns_[index].flows[way][grant.stream == kNotes ? 0 : 1].credit += grant.bytes;
}

void World::perform(Id id, const DeliverRecord& deliver) {
  require(id == 0, "the leader delivers");
  Numbered next = ++delivered_[deliver.origin];
  auto where = fmt::format("record {} of {}", deliver.number, deliver.origin);
  require(deliver.number == next, fmt::format("{}, not {}", where, next));
  Numbered planned = members_[deliver.origin].planned;
  std::string expected = is_end(next, planned) ? "" : content_of(deliver.origin, next, limits_.record);
  require(deliver.bytes == expected && deliver.channel == channel_of(next), where + " has changed");
  std::size_t bytes = kHead + deliver.bytes.size();
  if (receiving_ != kNone) conns_[receiving_].untaken += bytes;
  pending_.push_back({deliver.origin, deliver.number, receiving_, bytes});
}

void World::perform(Id id, const Announce& announce) {
  Member& member = members_[id];
  auto where = fmt::format("shell {}: broadcast record {}", id, announce.number);
  bool is_empty = announce.bytes.empty();
  if (is_empty) require(member.ended.insert(announce.channel).second, where + ": a second end");
  if (member.newcomer && member.announced == 0) member.announced = announce.number - (is_empty ? 0 : 1);
  bool ended_before = member.newcomer && is_empty && announce.number == member.announced;
  require(ended_before || announce.number == member.announced + 1,
          where + fmt::format(" after {}", member.announced));
  if (is_empty) require(ended_before || is_end(announce.number, broadcasts_), where + ": an end that was not");
  member.announced = announce.number;
  if (is_empty) return;
  require(announce.bytes == content_of(kBroadcaster, announce.number, limits_.record) &&
              announce.channel == channel_of(announce.number),
          where + " has changed");
}

// ---- what has to hold --------------------------------------------------------------------

// Called after each call of a node, so messages are made only when they are needed.
void World::check_bounds(Id id) {
  const BulkNode& node = *members_[id].node;
  std::size_t ends = kChannels * kHead;
  bool bounded = node.own_bytes() <= limits_.window + ends && node.broadcast_bytes() <= limits_.broadcast + ends;
  if (!bounded) {
    throw Broken{fmt::format("shell {}: {} own bytes, {} of the broadcast; at most {} and {}", id, node.own_bytes(),
                             node.broadcast_bytes(), limits_.window + ends, limits_.broadcast + ends)};
  }
  for (const auto& [index, conn] : conns_) {
    if (!conn.open[1] || conn.ends[1] != id) continue;
    const Flow& records = conn.flows[0][1];
    std::size_t held = node.child_bytes(conn.ends[0]) + conn.untaken;
    // Bytes that a cut has taken from the wire, or that the node holds, are missing.
    std::size_t all = records.credit + records.wire.size() + held;
    if (all <= limits_.link) continue;
    throw Broken{
        fmt::format("shell {}: {} bytes for its child {}; at most {}", id, all, conn.ends[0], limits_.link)};
  }
}

void World::check_end() {
  require(pending_.empty() && broadcast_ == broadcasts_, "the leader is not done");
  for (const auto& [id, member] : members_) {
    if (!member.node) continue;
    auto where = fmt::format("shell {}: ", id);
    require(member.view + 1 == views_.size(), where + "an old view");
    require(member.put == member.planned, where + fmt::format("put {} of {}", member.put, member.planned));
    require(delivered_[id] == member.planned,
            where + fmt::format("delivered {} of {}", delivered_[id], member.planned));
    require(member.drained && member.node->own_bytes() == 0, where + "not drained");
    if (member.leaves) continue;
    require(member.announced == broadcasts_, where + fmt::format("heard {} of {}", member.announced, broadcasts_));
    require(member.ended.size() == kChannels, where + "not all channels have ended");
    require(member.node->broadcast_bytes() == 0, where + "keeps what all have");
  }
}

// One seed again: unit_transfer "bulk in worlds that change" -c "hundred 3" -c "seed 317"

namespace {

// With sanitizers each world takes ten times as long.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NACRE_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define NACRE_SANITIZED
#endif
#ifdef NACRE_SANITIZED
constexpr std::uint64_t kSeeds = 100;
#else
constexpr std::uint64_t kSeeds = 2000;
#endif

}  // namespace

// In sections of sections, as Catch2 looks for one among its neighbours.
TEST_CASE("bulk in worlds that change") {
  for (std::uint64_t hundred = 0; hundred * 100 < kSeeds; ++hundred) {
    DYNAMIC_SECTION("hundred " << hundred) {
      for (std::uint64_t seed = hundred * 100; seed < hundred * 100 + 100; ++seed) {
        DYNAMIC_SECTION("seed " << seed) {
          try {
            World(seed).run();
          } catch (const Broken& broken) {
            FAIL(broken.what);
          }
        }
      }
    }
  }
}

}  // namespace nacre::bulk
