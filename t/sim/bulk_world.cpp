// SPDX-License-Identifier: Apache-2.0
#include "bulk_world.hpp"

namespace nacre::sim {

BulkWorld::Member::Member(BulkWorld& bulk_world, Id id)
    : all(bulk_world),
      self(id),
      driver(
          {id, false, {}, bulk::answer_channels()}, *this, 0,
          [](LinkName, const Error& why) { require(false, "bulk ends a link: " + why.message); },
          [this] {
            std::uint64_t wait = ++waits;
            all.world_.at_process(self, all.world_.now + bulk::kAnswerWait, [this, wait] {
              if (wait == waits) driver.waited();
            });
          }) {}

BulkWorld::BulkWorld(World& world) : world_(world) {
  members_.reserve(world.hosts.size());
  for (Id id = 0; id < world.hosts.size(); ++id) members_.push_back(std::make_unique<Member>(*this, id));
}

BulkWorld::~BulkWorld() = default;

bulk::Port& BulkWorld::port(Id id) { return members_[id]->driver; }

void BulkWorld::stepped(Id id) {
  Member& member = *members_[id];
  const Host& host = world_.hosts[id];
  std::map<LinkName, std::uint32_t> links(host.links.begin(), host.links.end());
  if (links != member.links) {
    for (const auto& [link, conn] : std::exchange(member.links, links)) {
      auto still = links.find(link);
      if (still != links.end() && still->second == conn) continue;
      std::erase_if(member.flows, [&link = link](const auto& each) { return each.first.first == link; });
      member.driver.gone(link);
    }
    for (const auto& [link, conn] : links) {
      if (link.side == Side::down && !member.fed.contains(conn)) member.driver.linked(link);
    }
    member.fed.clear();
    for (const auto& [link, conn] : links) member.fed.insert(conn);
  }
  member.driver.look_at(*host.node);
  member.driver.pump();
}

template <typename Act>
void BulkWorld::send(Member& from, LinkName to, Time& last, std::size_t bytes, Act act) {
  std::uint32_t conn = from.links.at(to);
  Host& host = world_.hosts[from.self];
  if (world_.bytes_per_ms > 0)
    host.busy = std::max(world_.now, host.busy) + Time(bytes * 1000 / world_.bytes_per_ms);
  auto spread = static_cast<std::uint64_t>((world_.latency_most - world_.latency_least).count());
  Time at = std::max(world_.now, host.busy) + world_.latency_least + Time(world_.random.in(0, spread)) + host.delay;
  last = std::max(last, at);
  LinkName back{from.self, to.side == Side::up ? Side::down : Side::up};
  world_.at_process(to.peer, last, [this, back, conn, id = to.peer, act = std::move(act)] {
    Member& member = *members_[id];
    auto found = member.links.find(back);
    if (found == member.links.end() || found->second != conn) return;
    if (id == 0) leader_cpu.start();
    act(member, back);
    if (id == 0) leader_cpu.stop();
  });
}

std::size_t BulkWorld::Member::write(LinkName to, bulk::StreamId stream, std::string_view bytes) {
  if (!links.contains(to)) return 0;
  Flow& flow = flows[{to, stream}];
  std::size_t size = std::min(flow.credit, bytes.size());
  if (size == 0) return 0;
  flow.credit -= size;
  ++all.counts.writes;
  all.counts.bytes += size;
  if (to.peer == 0) all.counts.to_leader += size;
  all.send(*this, to, flow.last, size,
           [stream, text = std::string(bytes.substr(0, size))](Member& peer, LinkName from) {
             peer.driver.received(from, stream, text);
           });
  return size;
}

Result<void> BulkWorld::Member::grant(LinkName to, bulk::StreamId stream, std::size_t bytes) {
  if (!links.contains(to)) return {};
  ++all.counts.grants;
  Time any{};  // grants may overtake each other
  all.send(*this, to, any, 0, [stream, bytes](Member& peer, LinkName from) {
    peer.flows[{from, stream}].credit += bytes;
    peer.driver.on_credit(from, stream);
  });
  return {};
}

}  // namespace nacre::sim
