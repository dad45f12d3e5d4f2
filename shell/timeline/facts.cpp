// SPDX-License-Identifier: Apache-2.0
#include "timeline/facts.hpp"

#include "base/bytes.hpp"
#include "wire/json.hpp"

namespace nacre::timeline {
namespace {

// Ends an interval of this name that has begun.
void close(std::vector<Interval>& all, const std::string& name, Time time) {
  auto open =
      std::find_if(all.rbegin(), all.rend(), [&](const Interval& each) { return each.name == name && !each.end; });
  if (open != all.rend()) open->end = std::max(open->begin, time);
}

void take_of_rank(const ShellTimeline& shell, const TimelineEvent& event, Time time, ShellFacts& out) {
  if (event.kind == Kind::mark && event.subject == kNoRank) {
    out.marks.push_back({time, shell.name_of(event)});
    return;
  }
  RankFacts& rank = out.ranks[event.subject];
  switch (event.kind) {
    case Kind::spawn: rank.spawn = time; break;
    case Kind::exec: rank.exec = time; break;
    case Kind::not_started: rank.not_started = time; break;
    case Kind::first_output: rank.first_output = time; break;
    case Kind::pmi_init: rank.pmi_init = time; break;
    case Kind::pmi_finalize: rank.pmi_finalize = time; break;
    case Kind::exit:
      rank.exit = time;
      rank.status = static_cast<int>(event.value);
      break;
    default: rank.marks.push_back({time, shell.name_of(event)});
  }
}

void agent_joined(ShellFacts& out, std::uint32_t shell, Time time) {
  for (AgentFacts& each : out.agents) {
    if (each.shell == shell) each.joined = std::max(each.begin, time);
  }
}

void take(const ShellTimeline& shell, const TimelineEvent& event, Time time, ShellFacts& out) {
  if (is_of_rank(event.kind)) return take_of_rank(shell, event, time, out);
  const std::string& name = shell.name_of(event);
  switch (event.kind) {
    case Kind::booted: out.booted = time; break;
    case Kind::joining: out.joining = time; break;
    case Kind::joined: out.joined = time; break;
    case Kind::phase_begins: out.phases.push_back({name, time, {}}); break;
    case Kind::phase_ends: close(out.phases, name, time); break;
    case Kind::enters:
      // A shell notes the exit barrier before it sends all, and again when it enters.
      if (When& in = out.barriers[name].in; !in) in = time;
      break;
    case Kind::passes: out.barriers[name].out = time; break;
    case Kind::hold_begins: out.holds.push_back({name, time, {}}); break;
    case Kind::hold_ends: close(out.holds, name, time); break;
    case Kind::end_hold_begins: out.end_holds.push_back({name, time, {}}); break;
    case Kind::end_hold_ends: close(out.end_holds, name, time); break;
    case Kind::agent_starts: out.agents.push_back({event.subject, name, time, {}}); break;
    case Kind::agent_joined: agent_joined(out, event.subject, time); break;
    case Kind::memory: out.memory.push_back({time, event.value}); break;
    case Kind::cpu: out.cpu.push_back({time, event.value}); break;
    default: break;
  }
}

void find_spawn_phase(ShellFacts& out) {
  for (const Interval& each : out.phases) {
    if (each.name != kSpawnPhase) continue;
    out.spawning = each.begin;
    out.spawned = each.end;
  }
}

}  // namespace

Time RankFacts::start_time() const {
  When ready = pmi_init ? pmi_init : exec;
  return spawn && ready ? *ready - *spawn : 0;
}

Passage ShellFacts::barrier(const std::string& name) const {
  auto found = barriers.find(name);
  return found == barriers.end() ? Passage() : found->second;
}

void add_barriers_to_clocks(JobTimeline& job) {
  auto passages = [](const ShellTimeline& shell) {
    std::map<std::string, Passage> out;
    for (const TimelineEvent& each : shell.events) {
      if (each.kind == Kind::enters) out[shell.name_of(each)].in = each.time;
      if (each.kind == Kind::passes) out[shell.name_of(each)].out = each.time;
      if (each.kind == Kind::joining) out["join"].in = each.time;
      if (each.kind == Kind::joined) out["join"].out = each.time;
    }
    return out;
  };
  if (job.shells.empty()) return;
  auto leader = passages(job.shells[job.leader]);
  for (std::size_t i = 0; i < job.shells.size(); ++i) {
    if (i == job.leader) continue;
    for (const auto& [name, mine] : passages(job.shells[i])) {
      auto its = leader.find(name);
      if (its == leader.end() || !its->second.in || !its->second.out || !mine.in || !mine.out) continue;
      job.shells[i].clock.add_barrier(*its->second.in, *its->second.out, *mine.in, *mine.out);
    }
  }
}

Facts facts_of(const JobTimeline& job) {
  Facts out;
  When first, last;
  for (const ShellTimeline& shell : job.shells) {
    ShellFacts& facts = out.shells.emplace_back();
    std::vector<const TimelineEvent*> events;
    for (const TimelineEvent& each : shell.events) events.push_back(&each);
    std::stable_sort(events.begin(), events.end(), [](auto* one, auto* other) { return one->time < other->time; });
    for (const TimelineEvent* each : events) {
      Time time = shell.clock.to_leader(each->time);
      first = std::min(first.value_or(time), time);
      last = std::max(last.value_or(time), time);
      take(shell, *each, time, facts);
    }
    find_spawn_phase(facts);
  }
  out.begin = first.value_or(job.until);
  out.until = std::max(job.until, last.value_or(job.until));
  return out;
}

std::string hold_name(const std::string& hold, bool at_end) {
  if (hold == "hooks") return at_end ? "epilog" : "prolog";
  if (hold == "channels" || hold == "output") return "output";
  return hold;
}

// ---- job timeline -----------------------------------------------------------------------

void ShellTimeline::take(const TimelineBatch& batch, std::size_t room) {
  const std::uint64_t have = events.size() + dropped_here;
  if (batch.first > have) return;
  const std::uint64_t known = std::min<std::uint64_t>(have - batch.first, batch.events.size());
  room = std::min({room, kMostEvents - std::min(kMostEvents, events.size()), batch.events.size() - known});
  auto begin = batch.events.begin() + static_cast<std::ptrdiff_t>(known);
  auto end = begin + static_cast<std::ptrdiff_t>(room);
  events.insert(events.end(), begin, end);
  if (!batch.names.empty()) names = batch.names;
  dropped = std::max(dropped, batch.dropped);
  dropped_here += static_cast<std::uint64_t>(batch.events.end() - end);
}

std::string ShellTimeline::place() const {
  if (host.empty()) return fmt::format("shell {}", shell);
  return shares_host ? fmt::format("shell {} on {}", shell, host) : host;
}

const std::string& ShellTimeline::name_of(const TimelineEvent& event) const {
  static const std::string kNone;
  return event.name < names.size() ? names[event.name] : kNone;
}

// ---- clock ------------------------------------------------------------------------------

namespace {

Time drift_in(Time distance) { return std::llround(std::abs(static_cast<double>(distance)) * Clock::kMostDrift); }

}  // namespace

void Clock::add_exchange(Time sent, Time received, Time answered, Time taken) {
  if (taken < sent || answered < received) return;
  add({received + (answered - received) / 2, answered - taken, received - sent});
}

// A shell passes a barrier after all have entered it.
void Clock::add_barrier(Time entered, Time passed, Time shell_entered, Time shell_passed) {
  if (passed < entered || shell_passed < shell_entered) return;
  add({shell_entered + (shell_passed - shell_entered) / 2, shell_entered - passed, shell_passed - entered});
}

void Clock::add(const Bounds& bounds) {
  if (bounds.width() < 0) return;
  auto next = std::upper_bound(bounds_.begin(), bounds_.end(), bounds.at,
                               [](Time at, const Bounds& each) { return at < each.at; });
  bool before = next != bounds_.begin() && bounds.at - std::prev(next)->at < kWindow;
  bool after = next != bounds_.end() && next->at - bounds.at < kWindow;
  if (before || after) {
    Bounds& other = before ? *std::prev(next) : *next;
    // The window does not move, so that a series of bounds does not shift it.
    if (bounds.width() < other.width()) other = {other.at, bounds.least, bounds.most};
    return;
  }
  bounds_.insert(next, bounds);
  if (bounds_.size() <= kMostBounds) return;
  std::size_t index = 0;
  std::erase_if(bounds_, [&](const Bounds&) { return ++index % 2 == 0 && index < kMostBounds; });
}

Clock::Offset Clock::measured(Time time) const {
  if (bounds_.empty()) return {};
  auto next = std::upper_bound(bounds_.begin(), bounds_.end(), time,
                               [](Time at, const Bounds& each) { return at < each.at; });
  auto of_one = [&](const Bounds& one) {
    return Offset{one.middle(), (one.width() + 1) / 2 + drift_in(time - one.at)};
  };
  if (next == bounds_.begin()) return of_one(*next);
  const Bounds& before = *std::prev(next);
  if (next == bounds_.end()) return of_one(before);
  double part = static_cast<double>(time - before.at) / static_cast<double>(next->at - before.at);
  Time value = before.middle() + std::llround(part * static_cast<double>(next->middle() - before.middle()));
  Time wide = (std::max(before.width(), next->width()) + 1) / 2;
  return {value, wide + drift_in(std::min(time - before.at, next->at - time))};
}

// ---- batch ------------------------------------------------------------------------------

namespace {

constexpr std::size_t kMostNames = 256;
constexpr std::size_t kMostText = 1024;  // bytes of a name, and of a clock
constexpr std::int64_t kMostTime = INT64_MAX / 2;

void append(std::string& out, const TimelineEvent& event) {
  append_number(out, static_cast<std::uint64_t>(event.time));
  append_number(out, static_cast<std::uint64_t>(event.value));
  append_number(out, event.subject);
  append_number(out, static_cast<std::uint16_t>(event.kind));
  append_number(out, event.name);
}

Result<TimelineEvent> take_event(std::string_view& bytes) {
  TimelineEvent out;
  out.time = static_cast<Time>(take_number<std::uint64_t>(bytes));
  out.value = static_cast<std::int64_t>(take_number<std::uint64_t>(bytes));
  out.subject = take_number<std::uint32_t>(bytes);
  auto kind = take_number<std::uint16_t>(bytes);
  out.name = take_number<std::uint16_t>(bytes);
  if (kind == 0 || kind > kLastKind) return invalid(fmt::format("an event of the kind {} is not known", kind));
  if (out.time < 0 || out.time > kMostTime) return invalid("an event has an impossible time");
  out.kind = static_cast<Kind>(kind);
  return out;
}

}  // namespace

// The head; what follows it are the events.
void fields(auto& io, wire::Of<TimelineBatch> auto& m) {
  const wire::Between to_most{0, kMostTime};
  io.has("number", m.number, to_most);
  io.has("received", m.received, to_most);
  io.has("sent", m.sent, to_most);
  io.has("last", m.is_last);
  io.has("dropped", m.dropped, to_most);
  io.may_have("first", m.first, to_most);
  io.may_have("clock", m.clock);
  io.may_have("names", m.names);
}

std::string TimelineBatch::text() const {
  std::string out = wire::to_text(*this) + '\n';
  out.reserve(out.size() + events.size() * sizeof(TimelineEvent));
  for (const TimelineEvent& each : events) append(out, each);
  return out;
}

Result<TimelineBatch> TimelineBatch::parse(std::string_view text) {
  std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return invalid("the head has no end");
  auto out = TRY(wire::from_text<TimelineBatch>(text.substr(0, end)));
  if (out.names.size() > kMostNames) return invalid(fmt::format("more than {} names", kMostNames));
  for (const std::string& each : out.names) {
    if (each.size() > kMostText) return invalid(fmt::format("a name has more than {} bytes", kMostText));
  }
  std::string_view bytes = text.substr(end + 1);
  if (bytes.size() % sizeof(TimelineEvent) != 0) return invalid("the events have a wrong length");
  while (!bytes.empty()) out.events.push_back(TRY(take_event(bytes)));
  return out;
}

}  // namespace nacre::timeline
