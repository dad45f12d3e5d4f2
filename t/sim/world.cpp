// SPDX-License-Identifier: Apache-2.0
#include "world.hpp"

#include "brief.hpp"
#include "overlay/wire.hpp"
#include "values.hpp"

namespace nacre::sim {
namespace {

// How many bytes of events and values the message has.
std::size_t data_of(const Message& message) {
  if (const auto* entry = std::get_if<Entry>(&message.body)) {
    if (const auto* event = std::get_if<Event>(&entry->body)) return event->data.size();
    if (const auto* piece = std::get_if<Release>(&entry->body)) return piece->data.size();
  }
  std::size_t sum = 0;
  if (const auto* up = std::get_if<Up>(&message.body)) {
    for (const Part& each : up->parts) sum += each.data.size();
  }
  return sum;
}

}  // namespace

void World::say(const std::string& line) const {
  if (trace) std::printf("%9.3f %s\n", static_cast<double>(now.count()) / 1e6, line.c_str());
}

// ---- time --------------------------------------------------------------------------------

void World::push(Happening each) {
  each.order = order_++;
  queue_.push(each);
}

void World::at(Time when, std::function<void()> what) {
  push({std::max(when, now), 0, What::call, 0, 0, 0, calls_.put(std::move(what))});
}

void World::at_host(Id id, Time when, std::function<void(Node&)> what) {
  at(when, [this, id, what = std::move(what)] {
    auto run = [this, id, what] {
      if (lives(id)) call(id, what);
    };
    if (hosts[id].life == Life::frozen) {
      hosts[id].inbox.emplace_back(run);
    } else {
      run();
    }
  });
}

void World::at_process(Id id, Time when, std::function<void()> what) {
  at(when, [this, id, what = std::move(what)] {
    Host& host = hosts[id];
    if (host.life == Life::up) return what();
    if (host.life == Life::frozen) host.inbox.emplace_back([this, id, what] { at_process(id, now, what); });
  });
}

void World::on(Id id, const std::function<void(Node&)>& what) {
  if (lives(id)) call(id, what);
}

bool World::run_until(Time end) {
  while (!queue_.empty() && queue_.top().at <= end) {
    Happening each = queue_.top();
    queue_.pop();
    now = each.at;
    happen(each);
  }
  now = end;
  return !queue_.empty();
}

void World::happen(const Happening& each) {
  if (each.what == What::call) return calls_.take(each.load)();
  if (each.what == What::tick) {
    Host& host = hosts[each.host];
    if (host.over || host.armed != each.at) return;
    if (host.life == Life::up) call(each.host, [](Node&) {});
    return;
  }
  Conn& conn = conns_[each.index];
  Time until = blocked_until(conn.dialler, conn.dialled);
  if (until > now) {  // sent again until it gets through
    conn.last[each.side] = std::max(conn.last[each.side], until);
    Happening later = each;
    later.at = until;
    queue_.push(later);
    return;
  }
  Host& host = hosts[each.side == 0 ? conn.dialler : conn.dialled];
  bool lost = now >= conn.lost_after[each.side];
  if (each.what == What::dial) {
    if (host.life == Life::dark || lost || conn.gone[0]) return;
    bool refused = host.over || host.life == Life::crashed || host.life == Life::unborn;
    return transmit(each.index, 0, refused ? What::refused : What::dialled, 0);
  }
  if (host.life == Life::frozen) {
    host.inbox.emplace_back([this, each] { happen(each); });
    return;
  }
  if (each.what == What::message) {
    Message message = loads_.take(each.load);
    bool sent = each.at <= conn.unsent_after[each.side];
    if (!lost && sent && host.life == Life::up && !host.over) arrive(each.index, each.side, message);
    return;
  }
  if (lost || host.life != Life::up || host.over || conn.gone[each.side]) return;
  if (each.what == What::dialled) {
    call(conn.dialler, [&](Node& node) { node.linked({conns_[each.index].dialled, Side::up}); });
  } else {
    bool is_refused = each.what == What::refused;
    ended(each.index, each.side);
    if (is_refused) refused(each.index);
  }
}

// ---- links -------------------------------------------------------------------------------

std::uint32_t* World::find(Id id, LinkName link) {
  for (auto& [each, conn] : hosts[id].links) {
    if (each == link) return &conn;
  }
  return nullptr;
}

Time World::blocked_until(Id a, Id b) const {
  Time until{};
  for (const Cut& each : cuts_) {
    if (each.until <= now) continue;
    bool hit = each.side.empty() ? (each.a == a && each.b == b) || (each.a == b && each.b == a)
                                 : (a < each.side.size() && each.side[a]) != (b < each.side.size() && each.side[b]);
    if (hit) until = std::max(until, each.until);
  }
  return until;
}

void World::cut(std::vector<bool> one_side, Time until) { cuts_.push_back({std::move(one_side), 0, 0, until}); }
void World::cut_pair(Id a, Id b, Time until) { cuts_.push_back({{}, a, b, until}); }

void World::transmit(std::uint32_t index, std::uint8_t to_side, What what, std::uint32_t load) {
  Conn& conn = conns_[index];
  const Host& sender = hosts[to_side == 0 ? conn.dialled : conn.dialler];
  Time at = std::max(now, sender.busy) + latency() + sender.delay;
  at = std::max(at, conn.last[to_side]);
  conn.last[to_side] = at;
  push({at, 0, what, to_side, 0, index, load});
}

void World::transmit_beat(std::uint32_t index, std::uint8_t to_side, std::uint32_t load) {
  const Conn& conn = conns_[index];
  push({now + latency() + hosts[to_side == 0 ? conn.dialled : conn.dialler].delay, 0, What::message, to_side, 0,
        index, load});
}

Time World::latency() {
  return latency_least + Time(random.in(0, static_cast<std::uint64_t>((latency_most - latency_least).count())));
}

// The size of the encoded message, which is decoded again, and has to be equal.
std::size_t World::size_of(const Message& message) {
  auto encoded = encode(message);
  require(encoded.has_value(), encoded ? "" : encoded.error().message);
  if (over_the_wire) {
    auto decoded = decode(*encoded);
    require(decoded.has_value(), decoded ? "" : decoded.error().message);
    require(*decoded == message, "a message is decoded as it was");
  }
  constexpr std::size_t kLength = 4;  // bytes that a link puts before a frame
  return encoded->size() + kLength + (scale > 1 ? (scale - 1) * data_of(message) : 0);
}

void World::dial(Id id, Id peer) {
  Conn fresh;
  fresh.dialler = id;
  fresh.dialled = peer;
  reserve(peer);
  conns_.push_back(fresh);
  auto index = static_cast<std::uint32_t>(conns_.size() - 1);
  hosts[id].links.push_back({{peer, Side::up}, index});
  transmit(index, 1, What::dial, 0);
}

void World::send(Id id, LinkName to, Message message) {
  std::uint32_t* conn = find(id, to);
  if (conn == nullptr) return;
  std::uint8_t side = to.side == Side::up ? 1 : 0;
  require(!conns_[*conn].half_closed[side],
          fmt::format("{} sends to {} what it has said its last word to", id, to.peer));
  if (trace) say(fmt::format("  {} -> {}: {}", id, to.peer, brief(message)));
  require(++messages <= most_messages, "a storm of messages");
  if (std::holds_alternative<Beat>(message.body)) ++beats;
  if (over_the_wire || count_bytes || bytes_per_ms > 0 || decodes) {
    std::size_t size = size_of(message);
    bytes += size;
    if (bytes_per_ms > 0) {
      bool passes = std::holds_alternative<Beat>(message.body) && conns_[*conn].greeted[side];
      if (passes) return transmit_beat(*conn, side, loads_.put(std::move(message)));
      hosts[id].busy = std::max(now, hosts[id].busy) + Time(size * 1000 / bytes_per_ms);
    }
  }
  transmit(*conn, side, What::message, loads_.put(std::move(message)));
}

void World::arrive(std::uint32_t index, std::uint8_t side, const Message& message) {
  if (conns_[index].gone[side]) return;
  Id id = side == 0 ? conns_[index].dialler : conns_[index].dialled;
  LinkName link{side == 0 ? conns_[index].dialled : conns_[index].dialler, side == 0 ? Side::up : Side::down};
  bool is_first = !std::exchange(conns_[index].greeted[side], true);
  if (side == 1 && is_first) {
    if (std::uint32_t* before = find(id, link)) {
      conns_[*before].gone[1] = true;
      std::erase_if(hosts[id].links, [&](const auto& each) { return each.first == link; });
      call(id, [&](Node& node) { node.unlinked(link); });
      if (hosts[id].over) return;
    }
    hosts[id].links.emplace_back(link, index);
    call(id, [&](Node& node) { node.linked(link); });
    if (hosts[id].over) return;
  }
  if (!decodes) return call(id, [&](Node& node) { node.step(link, message); });
  auto encoded = encode(message);
  call(id, [&](Node& node) { node.step(link, decode(encoded.value()).value()); });
}

void World::ended(std::uint32_t index, std::uint8_t side) {
  Conn& conn = conns_[index];
  conn.gone[side] = true;
  Id id = side == 0 ? conn.dialler : conn.dialled;
  LinkName link{side == 0 ? conn.dialled : conn.dialler, side == 0 ? Side::up : Side::down};
  auto& links = hosts[id].links;
  auto found = std::find_if(links.begin(), links.end(),
                            [&](const auto& each) { return each.first == link && each.second == index; });
  if (found == links.end()) return;
  links.erase(found);
  call(id, [&](Node& node) { node.unlinked(link); });
}

void World::refused(std::uint32_t index) {
  if (!tells_refusals) return;
  on(conns_[index].dialler, [dialled = conns_[index].dialled](Node& node) {
    if (dialled == node.tree().leader()) node.leader_refuses();
  });
}

void World::let_go(Id id, LinkName link, bool tell) {
  std::uint32_t* found = find(id, link);
  if (found == nullptr) return;
  std::uint32_t index = *found;
  std::erase_if(hosts[id].links, [&](const auto& each) { return each.first == link; });
  conns_[index].gone[link.side == Side::up ? 0 : 1] = true;
  if (tell) transmit(index, link.side == Side::up ? 1 : 0, What::end, 0);
}

void World::reset_link(Id a, Id b) {
  for (std::uint32_t index = 0; index < conns_.size(); ++index) {
    Conn& conn = conns_[index];
    bool between = (conn.dialler == a && conn.dialled == b) || (conn.dialler == b && conn.dialled == a);
    if (!between || (conn.gone[0] && conn.gone[1])) continue;
    conn.lost_after[0] = conn.lost_after[1] = now;  // what is under way is lost
    hosts[a].lost_link = hosts[b].lost_link = true;
    for (std::uint8_t side : {std::uint8_t{0}, std::uint8_t{1}}) {
      Id id = side == 0 ? conn.dialler : conn.dialled;
      at(now + Time(random.in(0, 2000)), [this, index, side, id] {
        bool told = conns_[index].gone[side] || hosts[id].over;
        if (told || hosts[id].life == Life::crashed || hosts[id].life == Life::dark) return;
        auto tell = [this, index, side, id] {
          if (lives(id) && !conns_[index].gone[side]) ended(index, side);
        };
        if (hosts[id].life != Life::frozen) return tell();
        hosts[id].inbox.emplace_back(tell);
      });
    }
  }
}

// ---- calls -------------------------------------------------------------------------------

void World::inject(Id to, LinkName from, const Message& message) {
  if (lives(to)) call(to, [&](Node& node) { node.step(from, message); });
}

void World::call(Id id, const std::function<void(Node&)>& what) {
  watcher_.calls(id, true);
  hosts[id].node->tick(now);
  perform(id);
  if (!hosts[id].over) {
    what(*hosts[id].node);
    perform(id);
  }
  watcher_.calls(id, false);
}

void World::perform(Id id) {
  auto effects = hosts[id].node->take_effects();
  Seq applied = 0;  // applied in this call
  for (Effect& each : effects) {
    if (const auto* entry = std::get_if<Deliver>(&each)) applied = entry->seq;
    const auto* forwarded = std::get_if<SendEntry>(&each);
    const bool is_late = forwarded != nullptr && forwarded->to.side == Side::down && forwarded->seq <= applied;
    require(!is_late, "an entry is applied before it is forwarded");
    perform(id, each);
  }
  watcher_.stepped(id);
}

void World::perform(Id id, Effect& effect) {
  if (auto* each = std::get_if<Send>(&effect)) {
    send(id, each->to, std::move(each->message));
  } else if (auto* entry = std::get_if<SendEntry>(&effect)) {
    require(hosts[id].node->entry(entry->seq) != nullptr, fmt::format("{} has dropped entry {}", id, entry->seq));
    send(id, entry->to, hosts[id].node->entry_message(entry->seq));
  } else if (auto* peer = std::get_if<Dial>(&effect)) {
    dial(id, peer->peer);
  } else if (auto* link = std::get_if<HangUp>(&effect)) {
    let_go(id, link->link, true);
    watcher_.effect(id, effect);
  } else if (auto* value = std::get_if<Publish>(&effect)) {
    publish(*this, *value);
  } else if (auto* half = std::get_if<HalfClose>(&effect)) {
    if (std::uint32_t* conn = find(id, half->link))
      conns_[*conn].half_closed[half->link.side == Side::up ? 1 : 0] = true;
  } else if (auto* arm = std::get_if<Arm>(&effect)) {
    hosts[id].armed = std::max(arm->at, now);
    push({hosts[id].armed, 0, What::tick, 0, id, 0, 0});
  } else {
    watcher_.effect(id, effect);
    bool ends = std::holds_alternative<Die>(effect) || std::holds_alternative<Finished>(effect);
    if (std::holds_alternative<Leave>(effect)) hosts[id].leaves = true;
    if (!ends) return;
    hosts[id].over = true;
    std::holds_alternative<Finished>(effect) && hosts[id].leaves ? leave(id) : end_process(id);
  }
}

}  // namespace nacre::sim
