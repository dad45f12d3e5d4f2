// SPDX-License-Identifier: Apache-2.0
#include "job_plan.hpp"

#include <algorithm>
#include <array>
#include <csignal>

#include <fmt/format.h>

namespace nacre::sim {
namespace {

constexpr std::uint64_t kLargeJobs = 150;  // one of so many jobs that change has up to so many shells: ...
constexpr std::uint32_t kMostShells = 200;
constexpr std::array kPhases{"unborn",       "join",      "create",      "load",  "init",
                             "init barrier", "post-init", "tasks",       "start", "start barrier",
                             "finish",       "all tasks", "complete",    "close", "exit barrier",
                             "exit",         "end",       "end barrier", "leave", "over"};
constexpr std::array kPlaces{"create",    "load",        "shell.init", "shell.post-init", "task.init",
                             "task.fork", "shell.start", "task.exit",  "shell.finish",    "shell.tasks-complete",
                             "shell.exit"};
constexpr std::array kHows{"fails", "dies", "raises", "crashes"};
constexpr std::array kBlows{
    "kill", "darken", "freeze", "reset", "cut", "isolate", "slow", "signal", "launcher's signal", "launcher gone"};
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGINT, SIGTERM};

int ending(Random& random) {
  if (random.one_in(8)) return static_cast<int>(random.one_in(2) ? SIGSEGV : SIGABRT);
  if (random.one_in(3)) return static_cast<int>(random.in(1, 255)) << 8;
  return 0;
}

TaskPlan any_task(Random& random, Id shell, bool all_succeed) {
  TaskPlan out;
  out.shell = shell;
  std::uint64_t most = random.one_in(4) ? 6'000'000 : 300'000;
  out.runs = Time(random.in(500, most));
  out.raw = all_succeed ? 0 : ending(random);
  out.reaction = static_cast<Reaction>(random.one_in(3) ? random.in(0, 2) : 0);
  out.reacts = Time(random.in(100, 2'000'000));
  out.code = static_cast<int>(random.in(0, 255));
  // Longer than a job that is being ended may take.
  if (out.reaction == Reaction::ignores && random.one_in(2)) out.runs += 20 * kSecond;
  return out;
}

Failure failure(Random& random, std::uint32_t members) {
  Failure out;
  out.shell = static_cast<Id>(random.one_in(3) ? 0 : random.in(0, members - 1));
  out.place = static_cast<Place>(random.in(0, kPlaces.size() - 1));
  if (out.place == Place::complete) out.shell = 0;
  out.how = static_cast<How>(random.in(0, kHows.size() - 1));
  static constexpr std::array kCodes{0, 1, 3, 42, 255, 256, 300, -1};
  if (out.how == How::dies) out.code = kCodes.at(random.in(0, kCodes.size() - 1));
  if (out.how == How::raises && random.one_in(2)) out.code = static_cast<int>(random.in(1, 255));
  // There is no Shell yet that could raise anything: an error is returned.
  if (out.place == Place::create && out.how != How::crashes)
    return {out.shell, out.place, How::fails, std::nullopt};
  return out;
}

Strike strike(Random& random, std::uint32_t members, std::uint32_t arity) {
  Strike out;
  out.blow = static_cast<Blow>(random.in(0, kBlows.size() - 1));
  out.a = static_cast<Id>(random.one_in(4) ? 0 : random.in(0, members - 1));
  if (out.blow == Blow::launcher_signal || out.blow == Blow::launcher_gone) out.a = 0;
  out.b = static_cast<Id>(random.one_in(3) ? (out.a == 0 ? 1 : (out.a - 1) / arity) : random.in(0, members - 1));
  out.span = Time(random.one_in(3) ? random.in(1000, 3'000'000) : random.in(1'000'000, 25'000'000));
  bool can_be_for_good = out.blow == Blow::cut || out.blow == Blow::isolate || out.blow == Blow::freeze;
  if (can_be_for_good && random.one_in(4)) out.span = 100'000 * kSecond;
  if (out.blow == Blow::slow) out.span = Time(random.in(1000, 700'000));
  out.signum = kSignals.at(random.in(0, kSignals.size() - 1));
  if (random.one_in(4)) {
    out.at = Time(random.in(0, random.one_in(2) ? 100'000 : 4'000'000));
  } else {
    out.phase = static_cast<Phase>(random.in(1, static_cast<int>(Phase::leave)));
    out.at = Time(random.one_in(3) ? 0 : random.in(0, random.one_in(4) ? 100'000 : 4000));
  }
  // While tasks run.
  bool is_signal = out.blow == Blow::signal || out.blow == Blow::launcher_signal;
  if (is_signal && random.one_in(2)) out.phase = Phase::finish;
  return out;
}

void strike_again(Random& random, JobPlan& plan) {
  Strike again = plan.strikes.back();
  again.at += Time(random.in(0, random.one_in(2) ? 200'000 : 3'000'000));
  if (random.one_in(3)) {
    again.a = static_cast<Id>(random.in(0, plan.members - 1));
    again.blow = Blow::signal;
  }
  plan.strikes.push_back(again);
}

// Links that break one after the other, each between a shell and its parent.
void reset_more(Random& random, JobPlan& plan) {
  for (std::uint64_t more = random.in(1, 4); more > 0; --more) {
    Strike again = plan.strikes.back();
    again.at += Time(random.in(0, 5000));
    if (!again.phase) again.a = static_cast<Id>(random.in(1, plan.members - 1));
    again.b = again.a == 0 ? 1 : (again.a - 1) / plan.arity;
    if (random.one_in(2)) again.a = std::exchange(again.b, again.a);
    plan.strikes.push_back(again);
  }
}

// Most of what is done to other jobs ends them. What does not, and goes on for longer, is left to most of these.
void let_it_change(Random& random, JobPlan& plan) {
  plan.changes = make_changes(random, plan.members, plan.tasks.size());
  Id spares = plan.members - plan.changes->spares;
  Id without = random.one_in(6) ? static_cast<Id>(random.in(1, plan.members - 1)) : plan.members;
  std::erase_if(plan.tasks, [&](const TaskPlan& each) { return each.shell == without || each.shell >= spares; });
  if (random.one_in(5)) return;
  plan.failures.clear();
  std::erase_if(plan.strikes, [](const Strike& each) { return each.a == 0 || each.blow >= Blow::signal; });
  for (TaskPlan& each : plan.tasks) {
    each.not_started = 0;
    if (!random.one_in(3)) each.runs += Time(random.in(0, 6'000'000));
    if (random.one_in(8)) each.raw = ending(random);
  }
}

exits::Policy any_policy(std::uint64_t seed, std::size_t tasks) {
  using Kind = exits::Policy::Kind;
  constexpr std::array kKinds{Kind::max, Kind::main, Kind::all, Kind::main_and_all, Kind::first};
  constexpr Id kMostOk = 9;
  Random random(seed ^ 0x901cULL);
  Kind kind = random.one_in(2) ? Kind::max : kKinds.at(random.in(0, kKinds.size() - 1));
  auto main = static_cast<Id>(random.in(0, tasks - 1));
  return {kind, main, random.one_in(4) ? Idset::range(1, kMostOk) : Idset()};
}

}  // namespace

const char* name_of(Phase phase) { return kPhases.at(static_cast<std::size_t>(phase)); }
const char* name_of(Place place) { return kPlaces.at(static_cast<std::size_t>(place)); }

std::uint64_t JobPlan::most_held() const {
  constexpr std::uint64_t kLeisure = 900'000, kHaste = 2000;
  return leisurely ? kLeisure : kHaste;
}

Idset JobPlan::all_ranks() const {
  Idset out;
  for (std::size_t rank = 0; rank < tasks.size(); ++rank) out.insert(static_cast<Id>(rank));
  return out;
}

Idset JobPlan::ranks_of(Id shell) const {
  Idset out;
  for (std::size_t rank = 0; rank < tasks.size(); ++rank) {
    if (tasks[rank].shell == shell) out.insert(static_cast<Id>(rank));
  }
  return out;
}

TaskPlan JobPlan::task(Id rank, std::uint32_t attempt) const {
  TaskPlan out = tasks[rank];
  if (attempt == 1) return out;
  Random random(seed ^ (rank * 0x51edULL + attempt * 0xa24bULL));
  TaskPlan again = any_task(random, out.shell, random.one_in(2));
  again.not_started = 0;
  return again;
}

bool JobPlan::is_calm() const {
  // What becomes of newcomers is done to them, too.
  bool grows = changes && std::any_of(changes->orders.begin(), changes->orders.end(),
                                      [](const Order& each) { return each.what == Order::What::grow; });
  bool crashes =
      std::any_of(failures.begin(), failures.end(), [](const Failure& each) { return each.how == How::crashes; });
  bool strikes_hosts =
      std::any_of(strikes.begin(), strikes.end(), [](const Strike& each) { return each.blow < Blow::signal; });
  return !crashes && !strikes_hosts && !grows;
}

JobPlan make_job_plan(std::uint64_t seed, std::uint32_t most_members) {
  Random random(seed ^ 0x10b5ULL);
  JobPlan plan;
  plan.seed = seed;
  plan.arity = random.one_in(2) ? 2 : static_cast<std::uint32_t>(random.in(2, 16));
  std::uint32_t most = most_members;
  while (most > 4 && !random.one_in(3)) most = most * 2 / 3;
  plan.members = static_cast<std::uint32_t>(random.in(2, std::max<std::uint32_t>(2, most)));
  Random changes(seed ^ 0xe1a5ULL);
  bool changes_while_it_runs = changes.one_in(2);
  if (changes_while_it_runs && changes.one_in(kLargeJobs))
    plan.members = static_cast<std::uint32_t>(changes.in(most_members, std::max(most_members, kMostShells)));
  plan.tolerant = random.one_in(4);
  plan.launched = random.one_in(2);
  plan.over_the_wire = random.one_in(16);
  plan.leisurely = random.one_in(6);
  bool all_succeed = !random.one_in(3);
  for (Id shell = 0; shell < plan.members; ++shell) {
    for (std::uint64_t more = random.in(1, 3); more > 0; --more)
      plan.tasks.push_back(any_task(random, shell, all_succeed));
  }
  std::uint64_t faults = random.one_in(8) ? 0 : random.one_in(2) ? 1 : random.in(2, 6);
  for (; faults > 0; --faults) {
    std::uint64_t kind = random.in(0, 9);
    if (kind == 0) {
      plan.tasks.at(random.in(0, plan.tasks.size() - 1)).not_started = random.one_in(2) ? 126 : 127;
    } else if (kind < 5) {
      plan.failures.push_back(failure(random, plan.members));
    } else {
      plan.strikes.push_back(strike(random, plan.members, plan.arity));
      Blow blow = plan.strikes.back().blow;
      if (blow >= Blow::signal && random.one_in(2)) strike_again(random, plan);
      if (blow == Blow::reset && random.one_in(2)) reset_more(random, plan);
    }
  }
  if (changes_while_it_runs) let_it_change(changes, plan);
  plan.policy = any_policy(seed, plan.tasks.size());
  return plan;
}

std::string brief(const Failure& failure) {
  std::string out = fmt::format("{} {} in {}", failure.shell, kHows.at(static_cast<std::size_t>(failure.how)),
                                name_of(failure.place));
  return failure.code ? out + fmt::format(" with {}", *failure.code) : out;
}

std::string brief(const Strike& strike) {
  std::string out = fmt::format("{} {}", kBlows.at(static_cast<std::size_t>(strike.blow)), strike.a);
  if (strike.blow == Blow::reset || strike.blow == Blow::cut) out += fmt::format(" and {}", strike.b);
  if (strike.blow == Blow::signal || strike.blow == Blow::launcher_signal) out += fmt::format(" {}", strike.signum);
  bool lasts = strike.blow == Blow::freeze || (strike.blow >= Blow::cut && strike.blow <= Blow::slow);
  if (lasts) out += fmt::format(" for {:.3f} s", static_cast<double>(strike.span.count()) / 1e6);
  double at = static_cast<double>(strike.at.count()) / 1e6;
  return out + (strike.phase ? fmt::format(", {:.3f} s after {}", at, name_of(*strike.phase))
                             : fmt::format(", at {:.3f} s", at));
}

JobPlan shrink(const JobPlan& plan, std::string& broken) {
  JobPlan best = plan;
  auto fails = [&](const JobPlan& less) {
    if (less.tasks.empty()) return false;  // no job
    JobOutcome outcome = run(less, false);
    if (outcome.broken.empty()) return false;
    best = less;
    broken = outcome.broken;
    return true;
  };
  fails(plan);
  auto without_each = [&](auto list) {
    bool smaller = false;
    for (std::size_t i = 0; i < (best.*list).size();) {
      JobPlan less = best;
      (less.*list).erase((less.*list).begin() + static_cast<std::ptrdiff_t>(i));
      if (fails(less)) {
        smaller = true;
      } else {
        ++i;
      }
    }
    return smaller;
  };
  for (bool smaller = true; smaller;) {
    smaller = without_each(&JobPlan::strikes);
    smaller = without_each(&JobPlan::failures) || smaller;
    smaller = without_each(&JobPlan::tasks) || smaller;
    for (std::size_t i = 0; best.changes && i < best.changes->orders.size();) {
      JobPlan less = best;
      less.changes->orders.erase(less.changes->orders.begin() + static_cast<std::ptrdiff_t>(i));
      fails(less) ? static_cast<void>(smaller = true) : static_cast<void>(++i);
    }
    for (std::uint32_t members : {best.members / 2, best.members - 1}) {
      JobPlan less = best;
      less.members = members;
      std::erase_if(less.tasks, [&](const TaskPlan& each) { return each.shell >= members; });
      std::erase_if(less.failures, [&](const Failure& each) { return each.shell >= members; });
      std::erase_if(less.strikes, [&](const Strike& each) { return each.a >= members || each.b >= members; });
      if (members < 2) continue;
      if (less.changes && !less.tasks.empty())
        less.changes->spares = std::min(less.changes->spares, members - 1 - less.tasks.back().shell);
      if (!fails(less)) continue;
      smaller = true;
      break;
    }
  }
  return best;
}

}  // namespace nacre::sim
