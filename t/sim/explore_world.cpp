// SPDX-License-Identifier: Apache-2.0
#include "explore_world.hpp"

#include <bit>

#include "brief.hpp"
#include "broken.hpp"

namespace nacre::sim {
namespace {

constexpr std::uint8_t kMostQuiet = 60;  // ticks in which all has to be well again
constexpr std::uint8_t kSoon = 3;        // the same for the arbiter, so that its word comes before any end
constexpr std::uint8_t kThawed = 255;  // in place of ticks: it goes on since the last tick, and is not frozen again
constexpr std::uint32_t kFormed = 8;   // ticks in which a job forms

// In ticks, more than any bound: hosts that are frozen or cut for longer stay so.
std::uint32_t most_frozen(const Bounds& bounds) { return 20 + 8 * bounds.delays; }

constexpr std::uint32_t bit(Id id) { return 1U << id; }

constexpr milliseconds kOne{kTick / kMs};

OverlayOptions options_of(Id id, const Bounds& bounds) {
  OverlayOptions out;
  out.job = 77;
  out.self = id;
  out.members = bounds.members;
  out.arity = 2;
  out.hands_over = true;
  out.has_arbiter = bounds.arbiter;
  // In the order of the product's, in whole ticks: so few moments differ, and what falls on the same tick comes in
  // any order.
  const std::uint32_t more = bounds.delays;
  out.redial_first = out.redial_interval = out.vote_bound = out.beat_interval = kOne;
  out.welcome_bound = out.relink_bound = 2 * kOne;
  out.beat_bound = (3 + more) * kOne;
  out.beat_bound_per_level = milliseconds(0);
  out.silent_bound = (4 + more) * kOne;
  out.hello_bound = (6 + 2 * more) * kOne;
  out.fence = (12 + 6 * more) * kOne;
  out.first_hello_bound = 2 * out.fence;
  return out;
}

}  // namespace

// ---- logs ----------------------------------------------------------------------------------

std::uint32_t Logs::append(std::uint32_t log, std::uint32_t entry, const Message& message) {
  for (std::uint32_t each : logs_[log].next) {
    if (logs_[each].entry == entry) return each;
  }
  const auto fresh = static_cast<std::uint32_t>(logs_.size());
  std::uint32_t dead = logs_[log].dead;
  if (const auto* change = std::get_if<View>(&std::get<Entry>(message.body).body)) {
    for (Id id : change->dead.ids()) dead |= bit(id);
  }
  logs_[log].next.push_back(fresh);
  logs_.push_back({log, entry, dead, logs_[log].size + 1});
  return fresh;
}

std::uint32_t Logs::cut(std::uint32_t log, Seq size) const {
  while (logs_[log].size > size) log = logs_[log].before;
  return log;
}

// ---- a state as bytes -----------------------------------------------------------------------

namespace {

class Packer {
 public:
  explicit Packer(std::string& out) : out_(out) {}
  template <typename T>
  void operator()(const T& each) {
    out_.append(reinterpret_cast<const char*>(&each), sizeof each);  // NOLINT
  }

 private:
  std::string& out_;
};

class Reader {
 public:
  explicit Reader(const std::string& from) : from_(from) {}
  template <typename T>
  void operator()(T& each) {
    std::memcpy(&each, from_.data() + at_, sizeof each);
    at_ += sizeof each;
  }

 private:
  const std::string& from_;
  std::size_t at_ = 0;
};

void each_number(auto& situation, auto& io) {
  for (auto& member : situation.members) {
    io(member.node);
    io(member.log);
    io(member.life);
    io(member.frozen_for);
    io(member.faulty);
    io(member.asks);
    io(member.asks_for);
  }
  io(situation.blocked);
  io(situation.excluded);
  io(situation.agreed_soon);
  io(situation.complete);
  io(situation.faults);
  io(situation.events);
  io(situation.delays);
  io(situation.quiet);
  io(situation.cut_for);
}

void each_number(auto& conn, std::array<std::uint8_t, 2>& sizes, auto& io) {
  io(conn.dialler);
  io(conn.dialled);
  io(conn.gone);
  io(conn.half_closed);
  io(conn.greeted);
  io(sizes);
  for (int side : {0, 1}) {
    if constexpr (requires { conn.under_way[0].resize(1); }) conn.under_way[side].resize(sizes[side]);
    for (auto& item : conn.under_way[side]) {
      io(item.kind);
      io(item.text);
      io(item.age);
    }
  }
}

}  // namespace

// Links in the order of their ends: which one was made first matters only between the same two members.
void Situation::write(std::string& out) const {
  Packer io(out);
  each_number(*this, io);
  io(static_cast<std::uint8_t>(leaders.size()));
  for (const auto& [term, id] : leaders) {
    io(term);
    io(id);
  }
  std::vector<const Conn*> sorted;
  for (const Conn& each : conns) sorted.push_back(&each);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Conn* a, const Conn* b) {
    return std::pair(a->dialler, a->dialled) < std::pair(b->dialler, b->dialled);
  });
  io(static_cast<std::uint8_t>(sorted.size()));
  for (const Conn* each : sorted) {
    std::array<std::uint8_t, 2> sizes{static_cast<std::uint8_t>(each->under_way[0].size()),
                                      static_cast<std::uint8_t>(each->under_way[1].size())};
    each_number(*each, sizes, io);
  }
}

void Situation::read(const std::string& from) {
  Reader io(from);
  each_number(*this, io);
  std::uint8_t size = 0;
  io(size);
  leaders.resize(size);
  for (auto& [term, id] : leaders) {
    io(term);
    io(id);
  }
  io(size);
  conns.assign(size, {});
  for (Conn& each : conns) {
    std::array<std::uint8_t, 2> sizes{};
    each_number(each, sizes, io);
  }
}

// ---- what can happen ------------------------------------------------------------------------

bool Explorer::can_deliver(const Conn& conn, int side) const {
  if (conn.under_way[side].empty() || conn.gone[side] || !runs(conn.at(side))) return false;
  return !is_blocked(conn.dialler, conn.dialled);
}

void Explorer::choices(std::vector<Choice>& out) const {
  out.clear();
  for (std::uint32_t conn = 0; conn < at.conns.size(); ++conn) {
    for (std::uint32_t side : {0U, 1U}) {
      if (can_deliver(at.conns[conn], static_cast<int>(side))) out.push_back({Choice::Kind::deliver, conn, side});
    }
  }
  for (Id id = 0; id < bounds_.members; ++id) {
    if (runs(id) && facts(id).due <= Time(0)) out.push_back({Choice::Kind::timer, id});
  }
  if (out.empty() || at.delays > 0) out.push_back({Choice::Kind::clock, 0, out.empty() ? 0U : 1U});
  for (Id id = 0; id < bounds_.members; ++id) {
    if (at.members[id].life == Life::frozen) out.push_back({Choice::Kind::thaw, id});
    const bool may_agree = at.members[id].asks != 0 && (at.excluded & bit(id)) == 0;
    if (runs(id) && may_agree) out.push_back({Choice::Kind::agree, id});
    const bool asks = id == facts(id).leader || id + 1 == bounds_.members;
    if (at.events > 0 && runs(id) && facts(id).is_member && asks) out.push_back({Choice::Kind::ask, id});
  }
  if (at.blocked != 0 && at.cut_for <= most_frozen(bounds_)) out.push_back({Choice::Kind::heal});
  if (at.faults > 0) add_faults(out);
}

void Explorer::add_faults(std::vector<Choice>& out) const {
  for (Id id = 0; id < bounds_.members; ++id) {
    if (!lives(id)) continue;
    const std::uint32_t ways = bounds_.crashes ? ways_to_lose(id) : 0;
    for (std::uint32_t lost = 0; lost < ways; ++lost) out.push_back({Choice::Kind::crash, id, lost});
    if (bounds_.freezes && runs(id) && at.members[id].frozen_for != kThawed)
      out.push_back({Choice::Kind::freeze, id});
  }
  if (!bounds_.cuts || at.blocked != 0) return;
  for (std::uint32_t side = 1; side < bit(bounds_.members); ++side) {
    const auto size = static_cast<std::uint32_t>(std::popcount(side));
    const bool is_smaller = 2 * size < bounds_.members || (2 * size == bounds_.members && (side & 1U) != 0);
    if (is_smaller) out.push_back({Choice::Kind::cut, side});
  }
}

// Any part of what it has sent last on each of its links may not have left it.
std::uint32_t Explorer::ways_to_lose(Id id) const {
  std::uint32_t ways = 1;
  for (const Conn& each : at.conns) {
    for (int side : {0, 1}) {
      if (each.at(1 - side) == id && !each.gone[1 - side])
        ways *= static_cast<std::uint32_t>(each.under_way[side].size()) + 1;
    }
  }
  return ways;
}

// Calls what(link, side, how many) for each link; `lost`: the number of the way.
template <typename F>
void Explorer::each_loss(Id id, std::uint32_t lost, F what) const {
  for (std::size_t conn = 0; conn < at.conns.size(); ++conn) {
    const Conn& each = at.conns[conn];
    for (int side : {0, 1}) {
      if (each.at(1 - side) != id || each.gone[1 - side]) continue;
      const std::size_t ways = each.under_way[side].size() + 1;
      what(conn, side, lost % ways);
      lost /= static_cast<std::uint32_t>(ways);
    }
  }
}

void Explorer::carry_out(const Choice& choice) {
  was_at_rest = false;
  if (says) say(choice);
  switch (choice.kind) {
    case Choice::Kind::deliver: deliver(choice.a, static_cast<int>(choice.b)); break;
    case Choice::Kind::timer: call(choice.a, {}); break;
    case Choice::Kind::clock:
      at.delays = static_cast<std::uint8_t>(at.delays - choice.b);
      clock();
      break;
    case Choice::Kind::ask:
      --at.events;
      stir();
      call(choice.a, {Cause::ask, {}});
      break;
    case Choice::Kind::crash: crash(choice.a, choice.b); break;
    case Choice::Kind::freeze:
      at.members[choice.a].life = Life::frozen;
      at.members[choice.a].frozen_for = 0;
      at.members[choice.a].faulty = true;
      --at.faults;
      stir();
      break;
    case Choice::Kind::thaw:
      at.members[choice.a].life = Life::up;
      at.members[choice.a].frozen_for = kThawed;
      stir();
      break;
    case Choice::Kind::cut: cut(choice.a); break;
    case Choice::Kind::agree: {
      const std::uint32_t others = std::exchange(at.members[choice.a].asks, 0);
      at.excluded |= others;
      at.agreed_soon = bounds_.faults == 1 && at.members[choice.a].asks_for <= kSoon;
      stir();
      call(choice.a, {Cause::agree, {}, others});
      break;
    }
    case Choice::Kind::heal:
      at.blocked = 0;
      at.cut_for = 0;
      for (Member& each : at.members)
        each.faulty = true;  // any member may have been silent for too long for
                             // another one
      stir();
  }
  forget_ended();
}

void Explorer::stir() { at.quiet = 0; }

void Explorer::cut(std::uint32_t side) {
  for (Id a = 0; a < bounds_.members; ++a) {
    if ((side & bit(a)) != 0) at.members[a].faulty = true;
    for (Id b = 0; b < bounds_.members; ++b) {
      if (((side & bit(a)) != 0) != ((side & bit(b)) != 0))
        at.blocked |= std::uint64_t{1} << (a * kMostExplored + b);
    }
  }
  --at.faults;
  stir();
}

void Explorer::crash(Id id, std::uint32_t lost) {
  each_loss(id, lost, [this](std::size_t conn, int side, std::size_t count) {
    auto& sent = at.conns[conn].under_way[side];
    sent.resize(sent.size() - count);
  });
  end_process(id, true);
  at.members[id].life = Life::crashed;
  at.members[id].faulty = true;
  --at.faults;
  stir();
}

void Explorer::clock() {
  const std::string why = unrest();
  was_at_rest = why.empty();
  at.quiet = why.empty() ? 0 : static_cast<std::uint8_t>(at.quiet + 1);
  require(at.quiet <= kMostQuiet, fmt::format("nothing was done to the members for {} s, and {}", kMostQuiet, why));
  for (Id id = 0; id < bounds_.members; ++id) {
    Member& member = at.members[id];
    member.node = nodes_.aged(member.node);
    if (member.asks != 0 && member.asks_for <= kSoon) ++member.asks_for;
    if (member.life == Life::up) member.frozen_for = 0;
    if (member.life != Life::frozen || ++member.frozen_for <= most_frozen(bounds_)) continue;
    end_process(id, false);
    member.life = Life::dark;
  }
  if (at.blocked != 0 && at.cut_for <= most_frozen(bounds_)) ++at.cut_for;
  for (Conn& each : at.conns) {
    const bool is_lost = is_blocked(each.dialler, each.dialled) && at.cut_for > most_frozen(bounds_);
    for (auto& items : each.under_way) {
      if (is_lost) items.clear();
      for (Item& item : items) {
        if (item.age != kNoAge) item.age += static_cast<std::int32_t>(kTick / kMs);
      }
    }
  }
}

// ---- links ----------------------------------------------------------------------------------

Conn* Explorer::find(Id id, LinkName link) {
  const bool is_up = link.side == Side::up;
  auto fits = [&](const Conn& each) {
    if (is_up) return each.dialler == id && each.dialled == link.peer && !each.gone[0];
    return each.dialled == id && each.dialler == link.peer && each.greeted[1] && !each.gone[1];
  };
  auto found = std::find_if(at.conns.begin(), at.conns.end(), fits);
  return found != at.conns.end() ? &*found : nullptr;
}

void Explorer::send(Id id, const Done& done) {
  Conn* conn = find(id, done.link);
  if (conn == nullptr) return;
  const int side = done.link.side == Side::up ? 1 : 0;
  if (side == 1 && !conn->greeted[0]) return;  // the link is being dialled
  require(!conn->half_closed[side],
          fmt::format("{} sends to {} what it has said its last word to", id, done.link.peer));
  if (!conn->gone[side]) conn->under_way[side].push_back({Item::Kind::message, done.text, done.age});
}

void Explorer::let_go(Id id, LinkName link) {
  Conn* conn = find(id, link);
  if (conn == nullptr) return;
  const int own = link.side == Side::up ? 0 : 1;
  const bool is_linked = own == 1 || conn->greeted[0];
  conn->gone[own] = true;
  conn->under_way[own].clear();
  if (!is_linked) conn->gone[1] = true;  // nobody has accepted it yet
  if (!conn->gone[1 - own]) conn->under_way[1 - own].push_back({Item::Kind::end});
}

// `tells`: the other ends see that its links end.
void Explorer::end_process(Id id, bool tells) {
  for (Conn& each : at.conns) {
    for (int own : {0, 1}) {
      if (each.at(own) != id || each.gone[own]) continue;
      const bool is_linked = own == 0 || each.greeted[0];  // otherwise its dialler is refused
      each.gone[own] = is_linked;
      each.under_way[own].clear();
      if (tells && is_linked && !each.gone[1 - own]) each.under_way[1 - own].push_back({Item::Kind::end});
    }
  }
  at.members[id].node = kOver;
}

void Explorer::forget_ended() {
  std::erase_if(at.conns, [](const Conn& each) { return each.gone[0] && each.gone[1]; });
}

void Explorer::deliver(std::size_t conn, int side) {
  auto& items = at.conns[conn].under_way[side];
  const Item item = items.front();
  items.erase(items.begin());
  const Id id = at.conns[conn].at(side);
  const Id peer = at.conns[conn].at(1 - side);
  const LinkName link{peer, side == 0 ? Side::up : Side::down};
  if (item.kind == Item::Kind::answer) return answer(id, peer, conn);
  if (item.kind == Item::Kind::message) return arrive(conn, side, item);
  const bool is_known = side == 0 || at.conns[conn].greeted[1];
  at.conns[conn].gone[side] = true;
  at.conns[conn].under_way[side].clear();
  if (!at.conns[conn].gone[1 - side]) at.conns[conn].gone[1 - side] = true;
  if (is_known) call(id, {Cause::unlinked, link});
}

// A host that is silent takes connections all the same, as a process that was stopped does.
void Explorer::answer(Id id, Id peer, std::size_t conn) {
  const LinkName link{peer, Side::up};
  const bool is_refused = !lives(peer) && at.members[peer].life != Life::dark;
  if (!is_refused) {
    at.conns[conn].greeted[0] = true;
    at.conns[conn].gone[1] = at.members[peer].life == Life::dark;
    return call(id, {Cause::linked, link});
  }
  at.conns[conn].gone = {true, true};
  call(id, {Cause::refused, link});
}

void Explorer::arrive(std::size_t conn, int side, const Item& item) {
  const Id id = at.conns[conn].at(side);
  const LinkName link{at.conns[conn].at(1 - side), side == 0 ? Side::up : Side::down};
  if (side == 1 && !at.conns[conn].greeted[1]) {
    if (Conn* before = find(id, link)) {
      before->gone[1] = true;
      before->under_way[1].clear();
      if (!before->gone[0]) before->under_way[0].push_back({Item::Kind::end});
      call(id, {Cause::unlinked, link});
      if (!lives(id)) return;
    }
    at.conns[conn].greeted[1] = true;
    call(id, {Cause::linked, link});
    if (!lives(id)) return;
  }
  call(id, {Cause::message, link, item.text, item.age});
}

// ---- calls ----------------------------------------------------------------------------------

void Explorer::call(Id id, const Input& input) {
  const Called& called = nodes_.call(at.members[id].node, input);
  at.members[id].node = called.next;
  for (const Done& each : called.deeds) perform(id, each);
}

void Explorer::perform(Id id, const Done& done) {
  if (says) say(id, done);
  Member& member = at.members[id];
  switch (done.act) {
    case Act::append:
      require(done.number == logs_.size(member.log) + 1, fmt::format("{}: entry {} comes twice", id, done.number));
      member.log = logs_.append(member.log, done.text, nodes_.message(done.text));
      break;
    case Act::lead: return leads(id, done.number);
    case Act::send: return send(id, done);
    case Act::dial: {
      require(find(id, done.link) == nullptr, fmt::format("{} dials {} twice", id, done.link.peer));
      Conn fresh;
      fresh.dialler = static_cast<std::uint8_t>(id);
      fresh.dialled = static_cast<std::uint8_t>(done.link.peer);
      fresh.under_way[0].push_back({Item::Kind::answer});
      at.conns.push_back(std::move(fresh));
      break;
    }
    case Act::hang_up: return let_go(id, done.link);
    case Act::half_close:
      if (Conn* conn = find(id, done.link)) conn->half_closed[done.link.side == Side::up ? 1 : 0] = true;
      break;
    case Act::show_own:
      require(done.number <= logs_.size(at.complete),
              fmt::format("{} leads, and shows entry {} before all have it", id, done.number));
      break;
    case Act::completed: return completed(id, done.number);
    case Act::ask_arbiter:
      member.asks = static_cast<std::uint32_t>(done.number);
      member.asks_for = 0;
      break;
    case Act::die: died(id, nodes_.line(done.text)); [[fallthrough]];
    case Act::finish: return end_process(id, true);
    default: break;
  }
}

// ---- invariants -----------------------------------------------------------------------------

std::uint32_t Explorer::member_bits() const { return (bit(bounds_.members) - 1) & ~logs_.dead(at.complete); }

bool Explorer::has_majority_without_fault() const {
  std::uint32_t sound = 0;
  for (Id id = 0; id < bounds_.members; ++id) sound |= at.members[id].faulty ? 0 : member_bits() & bit(id);
  const bool has_word = at.agreed_soon && (member_bits() & ~sound) == (member_bits() & at.excluded);
  return 2 * std::popcount(sound) + (has_word ? 1 : 0) > std::popcount(member_bits());
}

// A new leader has all complete entries.
void Explorer::leads(Id id, std::uint64_t term) {
  for (const auto& [other_term, other] : at.leaders) {
    if (other_term != term) continue;
    return require(other == id, fmt::format("{} and {} lead in term {}", other, id, term));
  }
  at.leaders.emplace_back(term, id);
  require(logs_.begins(at.members[id].log, at.complete),
          fmt::format("{} comes to lead in term {}, and lacks entries that were complete", id, term));
}

void Explorer::completed(Id id, Seq seq) {
  const std::uint32_t log = logs_.cut(at.members[id].log, seq);
  require(logs_.begins(log, at.complete) || logs_.begins(at.complete, log),
          fmt::format("{} leads, and has other entries than were complete", id));
  const std::uint32_t before = logs_.dead(at.complete);
  if (logs_.size(log) > logs_.size(at.complete)) at.complete = log;
  for (Id each = 0; each < bounds_.members; ++each) {
    const bool is_new = (logs_.dead(at.complete) & ~before & bit(each)) != 0;
    require(!is_new || at.members[each].faulty || !lives(each) || !has_majority_without_fault(),
            fmt::format("{} is declared dead, and nothing was done to it", each));
    const bool has = logs_.begins(at.members[each].log, log) || (member_bits() & bit(each)) == 0;
    require(has, fmt::format("entry {} is complete, and {} has {}", seq, each, logs_.size(at.members[each].log)));
  }
}

// A member is sent away if it has an entry that was lost with its leader.
bool Explorer::has_parted(Id id) const {
  const std::uint32_t own = at.members[id].log;
  const std::uint32_t valid = at.members[at.leaders.back().second].log;
  return !logs_.begins(own, valid) && !logs_.begins(valid, own);
}

void Explorer::died(Id id, const std::string& why) const {
  const bool is_member = (member_bits() & bit(id)) != 0;
  const bool is_excused = at.members[id].faulty || !is_member || has_parted(id) || !has_majority_without_fault();
  require(is_excused, fmt::format("{} dies, and nothing was done to it: {}", id, why));
}

std::string Explorer::unrest() const {
  std::vector<Id> leaders;
  bool any = false;
  for (Id id = 0; id < bounds_.members; ++id) {
    if (!runs(id)) continue;
    any = true;
    if (facts(id).leads) leaders.push_back(id);
  }
  if (leaders.size() > 1) return fmt::format("{} and {} both lead", leaders[0], leaders[1]);
  if (leaders.empty() && any) return "members live without a leader";
  if (leaders.empty()) return has_majority_without_fault() ? "most members could go on, and the job is over" : "";
  return unrest_below(leaders.front());
}

std::string Explorer::unrest_below(Id leader) const {
  const Facts& head = facts(leader);
  if (!logs_.begins(at.members[leader].log, at.complete)) return "the leader lacks entries that were complete";
  if (head.complete != head.applied)
    return fmt::format("{} of {} entries are complete", head.complete, head.applied);
  for (Id id = 0; id < bounds_.members; ++id) {
    const bool is_member = (head.members & bit(id)) != 0;
    if (is_member != runs(id))
      return fmt::format("{} {}", id, is_member ? "is a member and does not live" : "lives and is no member");
    if (!is_member) continue;
    const Facts& its = facts(id);
    if (at.members[id].log != at.members[leader].log) return fmt::format("{} has another log than the leader", id);
    if (!its.is_fed || its.elects) return fmt::format("{} is not fed by its parent", id);
    if (its.waits) return fmt::format("{} has a request that nobody answers", id);
  }
  return "";
}

// ---- the beginning ----------------------------------------------------------------------------

void Explorer::begin() {
  for (Id id = 0; id < bounds_.members; ++id) at.members[id].node = nodes_.start(options_of(id, bounds_));
  for (Id id = 0; id < bounds_.members; ++id) call(id, {});
  std::vector<Choice> all;
  for (std::uint32_t ticks = 0; ticks < kFormed || !was_at_rest;) {
    require(ticks < 2 * kFormed, "the job does not form: " + unrest());
    choices(all);
    ticks += all.front().kind == Choice::Kind::clock;
    carry_out(all.front());
  }
  at.faults = static_cast<std::uint8_t>(bounds_.faults);
  at.events = static_cast<std::uint8_t>(bounds_.events);
  at.delays = static_cast<std::uint8_t>(bounds_.delays);
  stir();
}

// ---- transcripts ------------------------------------------------------------------------------

std::string Explorer::words_of_message(std::uint32_t text, std::int32_t age) const {
  const Message& message = nodes_.message(text);
  if (!std::holds_alternative<Beat>(message.body)) return brief(message);
  if (age == kNoAge) return fmt::format("[{}] BEAT", message.term);
  return fmt::format("[{}] BEAT, made {} s ago", message.term, age / static_cast<std::int32_t>(kTick / kMs));
}

std::string Explorer::words_of_item(const Conn& conn, int side) const {
  const Item& item = conn.under_way[side].front();
  const Id to = conn.at(side);
  const Id from = conn.at(1 - side);
  if (item.kind == Item::Kind::message)
    return fmt::format("{} receives from {}: {}", to, from, words_of_message(item.text, item.age));
  if (item.kind == Item::Kind::end) return fmt::format("{} sees that its link to {} has ended", to, from);
  const bool is_refused = !lives(from) && at.members[from].life != Life::dark;
  return fmt::format(
      "{} {}", to,
      is_refused ? fmt::format("is refused by the host of {}", from) : fmt::format("has a link to {}", from));
}

std::string Explorer::words_of_end(Id id, std::uint32_t lost) const {
  std::string out = fmt::format("* the process of {} ends", id);
  each_loss(id, lost, [&](std::size_t conn, int side, std::size_t count) {
    if (count > 0)
      out += fmt::format("; the last {} that it has sent to {} are lost", count, at.conns[conn].at(side));
  });
  return out;
}

std::string Explorer::words(const Choice& choice) const {
  switch (choice.kind) {
    case Choice::Kind::deliver: return words_of_item(at.conns[choice.a], static_cast<int>(choice.b));
    case Choice::Kind::timer: return fmt::format("a bound of {} has passed", choice.a);
    case Choice::Kind::clock:
      return choice.b == 0 ? "* 1 s passes" : "* 1 s passes, and what is under way or due has not come";
    case Choice::Kind::ask: return fmt::format("* {} asks for an event", choice.a);
    case Choice::Kind::crash: return words_of_end(choice.a, choice.b);
    case Choice::Kind::freeze: return fmt::format("* {} is stopped", choice.a);
    case Choice::Kind::thaw: return fmt::format("* {} goes on", choice.a);
    case Choice::Kind::agree:
      return fmt::format("* the arbiter tells {} that it may go on without the others", choice.a);
    case Choice::Kind::heal: return "* all links carry what is sent again";
    case Choice::Kind::cut: break;
  }
  Idset side;
  for (Id each = 0; each < bounds_.members; ++each) {
    if ((choice.a & bit(each)) != 0) side.insert(each);
  }
  return fmt::format("* nothing passes any more between {} and the others", side.str());
}

void Explorer::say(const Choice& choice) const { std::printf("%s\n", words(choice).c_str()); }

void Explorer::say(Id id, const Done& done) const {
  std::string what;
  switch (done.act) {
    case Act::lead:
    case Act::half_close: return;
    case Act::append: what = "appends " + brief(nodes_.message(done.text)); break;
    case Act::send: what = fmt::format("-> {}: {}", done.link.peer, words_of_message(done.text, done.age)); break;
    case Act::dial: what = fmt::format("dials {}", done.link.peer); break;
    case Act::hang_up: what = fmt::format("lets go of its link to {}", done.link.peer); break;
    case Act::show:
    case Act::show_own: what = fmt::format("shows entry {}", done.number); break;
    case Act::completed: what = fmt::format("knows that all members have entry {}", done.number); break;
    case Act::ask_arbiter: what = "asks the arbiter"; break;
    case Act::die: what = "dies: " + nodes_.line(done.text); break;
    case Act::finish: what = "finishes"; break;
    case Act::note: what = "notes: " + nodes_.line(done.text); break;
  }
  std::printf("    %u %s\n", id, what.c_str());
}

}  // namespace nacre::sim
