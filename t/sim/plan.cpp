// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

namespace nacre::sim {
namespace {

constexpr Time kFirst = 200 * kMs;
constexpr Time kLast = 20 * kSecond;

Time moment(Random& random) {
  // Some come at once, as faults often do.
  if (random.one_in(3)) return kFirst + kSecond * static_cast<int>(random.in(0, 4)) * 4;
  return kFirst + Time(random.in(0, static_cast<std::uint64_t>((kLast - kFirst).count())));
}

Time span(Random& random, bool may_be_for_good) {
  constexpr Time kForGood = 100'000 * kSecond;
  if (may_be_for_good && random.one_in(3)) return kForGood;
  if (random.one_in(2)) return Time(random.in(1000, 3'000'000));
  return Time(random.in(1'000'000, 25'000'000));
}

std::vector<Id> some(Random& random, std::uint32_t members) {
  std::vector<Id> out;
  std::uint64_t count = random.in(1, std::max<std::uint64_t>(1, members / 3));
  if (random.one_in(2)) {  // every second member, which is the worst shrink
    for (std::uint64_t i = 0; i < count && 2 * i + 1 < members; ++i) out.push_back(static_cast<Id>(2 * i + 1));
  } else {
    for (std::uint64_t i = 0; i < count; ++i) out.push_back(static_cast<Id>(random.in(1, members - 1)));
  }
  return out;
}

RequestBody exec_of(const Action& action, Seq view) {
  Exec exec;
  exec.view = view;
  Id rank = 0;
  for (Id id : Idset::of(action.ids).ids()) {
    exec.map.push_back({id, Idset::range(rank, rank + 1)});
    rank += 2;
  }
  exec.command = "true";
  exec.strict = action.b % 2 == 0;
  exec.kind = action.b % 3 == 0 ? ExecKind::tool : ExecKind::tasks;
  return exec;
}

constexpr std::uint64_t kWait = 3000;  // of a grow, ms

constexpr Asking kAsked[] = {
    {"shrink", Asking::Names::members, false,
     [](const Action& action, Seq) -> RequestBody { return Shrink{Idset::of(action.ids)}; }},
    {"grow", Asking::Names::newcomers, false,
     [](const Action& action, Seq) -> RequestBody {
       return Grow{Idset::of(action.ids), kWait};
     }},
    {"exec", Asking::Names::members, true, exec_of},
    {"event", Asking::Names::nobody, true,
     [](const Action&, Seq) -> RequestBody {
       return Event{"note", "data"};
     }},
};
constexpr const Asking* kShrink = &kAsked[0];
constexpr const Asking* kGrow = &kAsked[1];
constexpr const Asking* kExec = &kAsked[2];
constexpr const Asking* kEvent = &kAsked[3];
// A request that is itself the entry, such as a signal, is to the leader what an event is. Run::go() asks for the
// end.
template <typename... T>
constexpr bool are_asked(const std::variant<T...>* /*of*/) {
  auto is_entry = [](auto* of) { return std::is_constructible_v<EntryBody, decltype(*of)>; };
  auto is_drawn = [](std::string_view name) {
    return std::any_of(std::begin(kAsked), std::end(kAsked),
                       [name](const Asking& each) { return each.name == name; });
  };
  return ((is_entry(static_cast<T*>(nullptr)) || is_drawn(T::kName)) && ...);
}
static_assert(are_asked(static_cast<const RequestBody*>(nullptr)),
              "a kind of request that is no entry is not drawn");

struct Drawn {
  Deed deed;
  const Asking* asking = nullptr;
};

Drawn draw(Random& random, bool quiet) {
  static constexpr Deed kFaults[] = {Deed::crash, Deed::darken,    Deed::freeze, Deed::reset,
                                     Deed::cut,   Deed::isolate,   Deed::slow,   Deed::reset,
                                     Deed::crash, Deed::partition, Deed::freeze, Deed::stale};
  static constexpr Drawn kWork[] = {{Deed::ask, kShrink}, {Deed::ask, kGrow}, {Deed::ask, kExec},
                                    {Deed::ask, kEvent},  {Deed::exit},       {Deed::ask, kShrink},
                                    {Deed::alien}};
  if (quiet || random.one_in(2)) return kWork[random.in(0, std::size(kWork) - 1)];
  return {kFaults[random.in(0, std::size(kFaults) - 1)]};
}

// The leader is lost, and more faults may come while the others choose another one.
void lose_leader(Plan& plan, Random& random) {
  static constexpr Deed kEnds[] = {Deed::crash, Deed::darken, Deed::freeze, Deed::isolate, Deed::crash, Deed::busy};
  static constexpr Deed kMore[] = {Deed::crash, Deed::freeze, Deed::partition, Deed::partition, Deed::reset,
                                   Deed::cut,   Deed::slow,   Deed::ask,       Deed::isolate,   Deed::ask};
  const Time at = moment(random);
  const Deed deed = kEnds[random.in(0, std::size(kEnds) - 1)];
  plan.actions.push_back({at, deed, kLeader, 0, span(random, deed != Deed::busy), {}});
  for (std::uint64_t more = random.in(0, 3); more > 0; --more) {
    Action each;
    each.deed = kMore[random.in(0, std::size(kMore) - 1)];
    if (each.deed == Deed::ask) each.asking = kEvent;
    each.at = at + Time(random.in(0, random.one_in(2) ? 5000 : 9'000'000));
    each.a = random.one_in(4) ? kLeader : static_cast<Id>(random.in(0, plan.members - 1));
    each.b = static_cast<Id>(random.in(0, plan.members - 1));
    each.span = each.deed == Deed::slow ? Time(random.in(1000, 700'000)) : span(random, false);
    for (Id id = 0; each.deed == Deed::partition && id < plan.members; ++id) {
      if (random.one_in(2)) each.ids.push_back(id);
    }
    plan.actions.push_back(std::move(each));
  }
}

}  // namespace

Plan make_plan(std::uint64_t seed, const Limits& limits) {
  Random random(seed ^ 0x51a7ULL);
  static constexpr std::uint32_t kArities[] = {2, 3, 8, 16};
  Plan plan;
  plan.seed = seed;
  plan.arity = kArities[random.in(0, 3)];
  Random over(seed ^ 0x1eadeULL);
  plan.hands_over = over.one_in(2);
  // Most jobs have few members, as faults meet there; some have any size up to the limit.
  constexpr std::uint32_t kFew = 9;
  std::uint32_t most = limits.members;
  if (plan.hands_over && over.one_in(2)) most = std::min(most, kFew);
  while (most > 4 && !random.one_in(3)) most = most * 2 / 3;
  plan.members = static_cast<std::uint32_t>(random.in(2, std::max<std::uint32_t>(2, most)));
  plan.rounds = static_cast<std::uint32_t>(random.in(1, 5));
  plan.ends = random.one_in(2);
  plan.over_the_wire = random.one_in(16);
  bool quiet = random.one_in(8);  // no faults at all
  bool spares_leader = !random.one_in(6);
  std::uint64_t count = random.in(0, limits.faults);
  Id next = plan.members;
  for (std::uint64_t i = 0; i < count; ++i) {
    Action each;
    each.at = moment(random);
    const Drawn drawn = draw(random, quiet);
    each.deed = drawn.deed;
    each.asking = drawn.asking;
    bool picks = each.deed == Deed::exit || (each.asking != nullptr && each.asking->by_leader);
    each.a = static_cast<Id>(random.in(spares_leader && !picks ? 1 : 0, plan.members - 1));
    each.b = static_cast<Id>(random.one_in(3) ? (each.a == 0 ? 0 : (each.a - 1) / plan.arity)
                                              : random.in(0, plan.members - 1));
    each.span = span(random, each.deed == Deed::cut || each.deed == Deed::isolate || each.deed == Deed::freeze);
    if (each.deed == Deed::slow) each.span = Time(random.in(1000, 700'000));
    const auto names = each.asking != nullptr ? each.asking->names : Asking::Names::nobody;
    if (names == Asking::Names::members) each.ids = some(random, plan.members);
    if (names == Asking::Names::newcomers) {
      for (std::uint64_t more = random.in(1, 4); more > 0; --more) each.ids.push_back(next++);
    }
    if (each.deed == Deed::partition) {
      for (Id id = spares_leader ? 1 : 0; id < plan.members; ++id) {
        if (random.one_in(2)) each.ids.push_back(id);
      }
    }
    plan.actions.push_back(std::move(each));
  }
  // From separate random numbers, so that the rest of a seed's plan does not change.
  Random slow(seed ^ 0x510eULL);
  if (slow.one_in(8)) plan.bytes_per_ms = slow.in(50, 500);
  Random still(seed ^ 0x57111ULL);
  if (still.one_in(6))
    plan.actions.push_back({moment(still), Deed::still, 0, 0, Time(still.in(1'000'000, 60'000'000)), {}});
  Random busy(seed ^ 0xb0517ULL);
  for (std::uint64_t more = busy.one_in(3) ? busy.in(1, 4) : 0; more > 0; --more) {
    auto host = static_cast<Id>(busy.in(0, plan.members - 1));
    plan.actions.push_back({moment(busy), Deed::busy, host, 0, Time(busy.in(500'000, 60'000'000)), {}});
  }
  for (std::uint64_t more = plan.hands_over ? over.in(0, 3) : 0; more > 0; --more) lose_leader(plan, over);
  std::stable_sort(plan.actions.begin(), plan.actions.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return plan;
}

std::string brief(const Action& action) {
  static constexpr const char* kNames[] = {"crash", "darken", "freeze", "reset", "cut",  "isolate", "partition",
                                           "slow",  "still",  "busy",   "ask",   "exit", "stale",   "alien"};
  const char* name = action.asking != nullptr ? action.asking->name : kNames[static_cast<int>(action.deed)];
  std::string out = fmt::format("{} {}", name, action.a);
  if (action.deed == Deed::reset || action.deed == Deed::cut) out += fmt::format(" and {}", action.b);
  if (!action.ids.empty()) out += fmt::format(": {}", Idset::of(action.ids).str());
  bool lasts = action.deed == Deed::freeze || (action.deed >= Deed::cut && action.deed <= Deed::busy);
  if (lasts) out += fmt::format(" for {:.3f} s", static_cast<double>(action.span.count()) / 1e6);
  return out;
}

Outcome run(const Plan& plan, bool trace) {
  Run job(plan, trace);
  Outcome out;
  std::string broken;
  try {
    job.go();
  } catch (const Broken& failure) {
    broken = failure.what;
  }
  out = job.outcome();
  out.broken = std::move(broken);
  return out;
}

Plan shrink(const Plan& plan, std::string& broken) {
  Plan best = plan;
  auto fails = [&](const Plan& plan_without) {
    Outcome outcome = run(plan_without, false);
    if (outcome.broken.empty()) return false;
    best = plan_without;
    broken = outcome.broken;
    return true;
  };
  fails(plan);
  constexpr int kMostTries = 600;
  int tries = 0;
  for (bool smaller = true; smaller && tries < kMostTries;) {
    smaller = false;
    for (std::size_t i = 0; i < best.actions.size() && tries < kMostTries; ++tries) {
      Plan less = best;
      less.actions.erase(less.actions.begin() + static_cast<std::ptrdiff_t>(i));
      if (fails(less)) {
        smaller = true;
      } else {
        ++i;
      }
    }
    for (std::uint32_t members : {best.members / 2, best.members * 3 / 4, best.members - 1}) {
      Plan less = best;
      less.members = members;
      auto beyond = [&](Id id) { return id >= members && id < best.members; };
      std::erase_if(less.actions, [&](const Action& each) { return beyond(each.a) || beyond(each.b); });
      for (Action& each : less.actions) std::erase_if(each.ids, beyond);
      if (members < 2 || members >= best.members || !fails(less)) continue;
      smaller = true;
      break;
    }
  }
  return best;
}

}  // namespace nacre::sim
