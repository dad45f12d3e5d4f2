// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include "values.hpp"

namespace nacre::sim {
namespace {

constexpr std::uint64_t kJob = 77;
constexpr std::uint64_t kTerm = 3;
// These bounds are shorter than the product's, in the same order, so that a job is over soon.
constexpr milliseconds kFence{16'000};
constexpr milliseconds kLeaveBound{6000};
constexpr milliseconds kCampaignBound{9000};
constexpr milliseconds kFirstHello{12'000};

constexpr std::size_t kMostLogged = 48;  // bytes of a value: some go beside the log

constexpr std::uint64_t kFewMessages = 20'000;
constexpr std::uint64_t kMessagesPerMember = 1000;

constexpr Merge kMerges[] = {Merge::sum, Merge::gather, Merge::max, Merge::set};

}  // namespace

Run::Run(const Plan& plan, bool trace) : plan_(plan), world_(plan.seed, *this), check_(world_) {
  world_.trace = trace;
  world_.over_the_wire = plan.over_the_wire;
  world_.ends_late = true;
  world_.tells_refusals = true;
  world_.bytes_per_ms = plan.bytes_per_ms;
  world_.most_messages = kFewMessages + std::uint64_t{plan.members} * kMessagesPerMember;
}

OverlayOptions Run::options(Id id) const {
  OverlayOptions out;
  out.job = kJob;
  out.term = kTerm;
  out.self = id;
  out.members = plan_.members;
  out.arity = plan_.arity;
  out.newcomer = id >= plan_.members;
  if (out.newcomer) out.address = fmt::format("host{}:1", id);
  out.fence = kFence;
  out.leave_bound = kLeaveBound;
  out.campaign_bound = kCampaignBound;
  out.first_hello_bound = kFirstHello;
  out.max_logged = kMostLogged;
  out.digest = [](std::string_view bytes) { return digest_of(bytes); };
  out.hands_over = plan_.hands_over;
  out.leader = check_.leader();
  return out;
}

Outcome Run::outcome() const {
  return {"", world_.messages, check_.campaigns, check_.deaths, check_.releases, check_.leaders};
}

void Run::go() {
  check_.begin(plan_.members, plan_.arity, std::max(Time(kFence), Time(kLeaveBound)) + kSlack, plan_.hands_over);
  world_.reserve(plan_.members - 1);
  for (Id id = 0; id < plan_.members; ++id) {
    Time start = Time(world_.random.in(0, 100'000));
    world_.at(start, [this, id] {
      awake([this, id] {
        world_.boot(id, options(id));
        go_on(id, 0);
      });
    });
  }
  rest_ = 3 * kSecond;
  for (const Action& each : plan_.actions) {
    world_.at(each.at, [this, &each] {
      Action action = each;
      if (action.a == kLeader) action.a = check_.leader();
      world_.say("* " + brief(action));
      act(action);
    });
    Time over = each.at + (each.span < 1000 * kSecond ? each.span : Time(0));
    rest_ = std::max(rest_, over);
  }
  come_to_rest();
  if (!plan_.ends || !world_.lives(check_.leader())) return;
  for (Id id = static_cast<Id>(world_.random.in(0, plan_.members - 1));; id = check_.leader()) {
    if (!world_.lives(id)) continue;
    ask(id, End{7});
    break;
  }
  world_.run_until(world_.now + Time(kFence) + kSlack);
  for (Id id = 0; id < world_.hosts.size(); ++id) {
    require(!world_.lives(id), fmt::format("the job has ended, and {} goes on", id));
  }
}

// If many members are lost at once that have moved since the beginning, each has its own hello bound.
void Run::come_to_rest() {
  constexpr int kMostRounds = 24;
  Time next = rest_ + Time(kFence) + kSlack;
  for (int round = 1;; ++round, next += 2 * kSlack) {
    world_.run_until(next);
    try {
      check_.at_rest();
      return check_reports();
    } catch (const Broken&) {
      if (round == kMostRounds) throw;
    }
  }
}

void Run::check_reports() {
  if (!world_.lives(check_.leader())) return;
  Idset members = Idset::of(check_.members());
  Idset missing = (exited_ & members) - reported_[check_.leader()];
  require(missing.empty(), fmt::format("the leader does not know that tasks {} have ended", missing.str()));
}

// ---- what is done to the job -------------------------------------------------------------

void Run::act(const Action& action) {
  switch (action.deed) {
    case Deed::crash:
    case Deed::darken:
    case Deed::freeze:
    case Deed::slow: return act_on_host(action);
    case Deed::reset:
    case Deed::cut:
    case Deed::isolate:
    case Deed::partition: return act_on_links(action);
    case Deed::still: return stand_still(action.span);
    case Deed::busy:
      if (world_.hosts[action.a].life == Life::up) run_handler(action.a, world_.now + action.span);
      return;
    case Deed::stale:
    case Deed::alien: return forge(action);
    case Deed::exit: return end_task(action.a);
    case Deed::ask: return ask(action);
  }
}

void Run::act_on_host(const Action& action) {
  if (world_.hosts[action.a].life == Life::unborn) return;
  check_.of(action.a).faulty = true;
  if (action.deed == Deed::crash) {
    world_.crash(action.a);
    check_.of(action.a).tasks = false;
  } else if (action.deed == Deed::darken) {
    world_.darken(action.a);
    check_.of(action.a).tasks = false;
  } else if (action.deed == Deed::freeze) {
    world_.freeze(action.a);
    world_.at(world_.now + action.span, [this, id = action.a] { awake([this, id] { world_.thaw(id); }); });
  } else {
    world_.hosts[action.a].delay = action.span;
  }
}

// All shells of a machine stop at once, and go on within a moment. This is no fault of theirs.
void Run::stand_still(Time span) {
  still_until_ = world_.now + span;
  for (Id id = 0; id < world_.hosts.size(); ++id) {
    if (world_.hosts[id].life != Life::up) continue;
    world_.freeze(id);
    world_.at(still_until_ + Time(world_.random.in(0, 50'000)), [this, id] { world_.thaw(id); });
  }
}

// This is no fault: the others wait for the shell.
void Run::run_handler(Id id, Time until) {
  check_.of(id).was_busy = true;
  if (!world_.hosts[id].in_handler) world_.set_in_handler(id, true);
  if (world_.now >= until) return awake([this, id] { world_.set_in_handler(id, false); });
  if (world_.now >= still_until_) world_.send_busy_beats(id);
  // Without a feeder that passes it on no busy beat tells a new parent that the shell lives.
  auto feeder = world_.hosts[id].node->feeder();
  bool is_fed = feeder && !check_.of(*feeder).faulty && world_.lives(*feeder);
  if (!is_fed) check_.of(id).faulty = true;
  Time next = std::min(until, world_.now + Time(OverlayOptions().beat_interval) / 2);
  world_.at(next, [this, id, until] {
    if (world_.hosts[id].in_handler) run_handler(id, until);
  });
}

// Does nothing while all stand still.
void Run::awake(std::function<void()> what) {
  if (world_.now >= still_until_) return what();
  world_.at(still_until_ + Time(world_.random.in(0, 50'000)), std::move(what));
}

void Run::act_on_links(const Action& action) {
  Time until = world_.now + action.span;
  check_.of(action.a).faulty = true;
  if (action.deed == Deed::partition || action.deed == Deed::isolate) {
    std::vector<bool> side(world_.hosts.size(), false);
    if (action.deed == Deed::isolate) side[action.a] = true;
    for (Id id : action.ids) side.at(id) = true;
    // The members whose links are cut: those of one side, and all of the other.
    for (Id id = 0; id < world_.hosts.size(); ++id) check_.of(id).faulty = true;
    return world_.cut(std::move(side), until);
  }
  if (action.a == action.b) return;
  check_.of(action.b).faulty = true;
  if (action.deed == Deed::reset) return world_.reset_link(action.a, action.b);
  world_.cut_pair(action.a, action.b, until);
}

// A message that a member could have sent before the job was started again, or a member of another job.
void Run::forge(const Action& action) {
  if (!world_.lives(action.a) || action.a == check_.leader()) return;
  auto feeder = world_.hosts[action.a].node->feeder();
  if (!feeder) return;
  check_.of(action.a).faulty = true;  // the member hangs up
  check_.of(*feeder).faulty = true;
  Message message;
  message.job = action.deed == Deed::alien ? kJob + 1 : kJob;
  message.term = action.deed == Deed::alien ? kTerm : kTerm - 1;
  Entry entry;
  entry.seq = world_.hosts[action.a].node->applied() + 1;
  entry.body = Event{"forged", "no"};
  message.body = entry;
  world_.inject(action.a, {*feeder, Side::up}, message);
}

// ---- what the job does -------------------------------------------------------------------

void Run::ask(Id id, RequestBody body) {
  world_.at_host(id, world_.now, [this, id, body](Node& node) {
    auto number = node.request(body);
    if (number) check_.asked({id, *number}, body);
  });
}

void Run::ask(const Action& action) {
  const Node* node = world_.hosts[action.a].node.get();
  ask(action.a, action.asking->make(action, node != nullptr ? node->view() : 0));
  if (action.asking->names != Asking::Names::newcomers) return;
  for (Id id : action.ids) {
    if (world_.random.one_in(5)) continue;  // never comes
    world_.reserve(id);
    Time start = world_.now + Time(world_.random.in(0, 2'500'000));
    world_.at(start, [this, id] { awake([this, id] { world_.boot(id, options(id)); }); });
  }
}

void Run::end_task(Id id) {
  world_.at_host(id, world_.now, [this, id](Node& node) {
    if (node.stage() != Stage::member) return;
    exited_.insert(id);
    if (id % 3 == 0) node.started(Idset::range(id, id));
    node.exited(Idset::range(id, id), id % 2 == 0 ? "x0" : "x1");
  });
}

void Run::enter(Id id, const std::string& name, Merge merge, Scope scope) {
  check_.of(id).entered.insert(name);
  world_.at_host(id, world_.now, [id, name, merge, scope](Node& node) {
    if (node.stage() != Stage::member) return;
    auto entered = node.enter(name, merge, Check::part_of(name, merge, id), scope);
    require(entered.has_value(), entered ? "" : entered.error().message);
  });
}

// The first members go through the rounds; then all meet.
void Run::go_on(Id id, std::uint32_t round) {
  Time think = Time(world_.random.one_in(4) ? world_.random.in(0, 4'000'000) : world_.random.in(0, 20'000));
  world_.at(world_.now + think, [this, id, round] {
    enter(id, fmt::format("round.{}", round), kMerges[round % 4], {0, 0});
  });
}

void Run::leave(Id id) {
  Time takes = Time(world_.random.one_in(4) ? world_.random.in(0, 5'000'000) : world_.random.in(0, 50'000));
  world_.at_host(id, world_.now + takes, [this, id](Node& node) {
    check_.of(id).tasks = false;
    node.tasks_ended();
  });
}

void Run::effect(Id id, const Effect& effect) {
  if (const auto* entry = std::get_if<Deliver>(&effect)) {
    check_.delivered(id, entry->seq);
  } else if (const auto* all = std::get_if<Completed>(&effect)) {
    check_.completed(id, all->seq);
  } else if (const auto* value = std::get_if<Released>(&effect)) {
    check_.released(id, *value);
    if (!value->name.starts_with("round.")) return;
    auto round = static_cast<std::uint32_t>(std::stoul(value->name.substr(6))) + 1;
    if (round < plan_.rounds) go_on(id, round);
  } else if (const auto* unfit = std::get_if<Unfit>(&effect)) {
    require(false, fmt::format("{}: {}: {}", id, unfit->name, unfit->why));
  } else if (const auto* joined = std::get_if<Joined>(&effect)) {
    Account& host = check_.of(id);
    host.joined = host.tasks = true;
    if (host.delivered == 0) host.delivered = joined->view;
    host.floor = joined->view + 1;
    enter(id, fmt::format("newcomers.{}", joined->view), Merge::sum, {joined->view, joined->view});
  } else if (std::holds_alternative<Leave>(effect)) {
    leave(id);
  } else if (const auto* death = std::get_if<Die>(&effect)) {
    world_.say(fmt::format("{} dies: {}", id, death->why));
    check_.of(id).tasks = false;
    check_.died(id, death->why);
  } else if (const auto* news = std::get_if<Reported>(&effect)) {
    started_ = started_ | news->started;
    for (const TaskReport& each : news->exited) {
      require((each.tasks - started_).empty(), "a task has ended and not started");
      require((reported_[id] & each.tasks).empty(), "a task's end is reported twice");
      reported_[id] = reported_[id] | each.tasks;
    }
  } else if (std::holds_alternative<Finished>(effect)) {
    bool may = check_.ended() || check_.of(id).has_end || !check_.of(id).tasks;
    require(may, fmt::format("{} has finished while its tasks run", id));
    check_.of(id).tasks = false;
  } else if (const auto* link = std::get_if<HangUp>(&effect)) {
    check_.hung_up(id, link->link);
  } else if (const auto* note = std::get_if<Note>(&effect)) {
    world_.say(fmt::format("{} notes: {}", id, note->text));
  }
}

}  // namespace nacre::sim
