// SPDX-License-Identifier: Apache-2.0
//
// What the nodes of a world ask for, and what has to hold.

#include "world.hpp"

namespace nacre::bulk {

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

}  // namespace nacre::bulk
