// SPDX-License-Identifier: Apache-2.0
//
// Runs a job's plan: its hosts, its shells, and what is done to them.
#include <algorithm>

#include <fmt/format.h>

#include "brief.hpp"
#include "job_check.hpp"
#include "job_elastic.hpp"
#include "job_leader.hpp"
#include "values.hpp"

namespace nacre::sim {
namespace {

// Shorter than the product's, in the same order, so that a job is over soon.
constexpr milliseconds kJobFence{16'000};
constexpr milliseconds kJobFirstHello{12'000};
constexpr Time kEndless = 1000 * kSecond;
constexpr Time kMostChanges = 900 * kSecond;    // that a job goes on for, as it changes
constexpr std::uint64_t kMostCarried = 50'000;  // microseconds that a record is on its way up

class JobRun : private Watcher, private Witness {
 public:
  JobRun(const JobPlan& plan, bool trace) : plan_(plan), world_(plan.seed, *this), check_(world_, plan_, shells_) {
    constexpr std::uint64_t kMessages = 200'000, kMessagesEach = 40'000;
    world_.trace = trace;
    world_.over_the_wire = plan.over_the_wire;
    world_.ends_late = true;
    world_.most_messages = kMessages + (plan.changes ? plan.members * kMessagesEach : 0);
    world_.tells_refusals = true;
    world_.reserve(plan.members - 1);
    struck_.assign(plan.strikes.size(), false);
    Witness& witness = *this;
    for (Id id = 0; id < plan.members; ++id) {
      shells_.push_back(std::make_unique<JobShell>(world_, plan_, id, witness));
    }
  }

  void go() {
    constexpr std::uint64_t kApart = 100'000;
    for (Id id = 0; id < plan_.members; ++id) {
      world_.at(Time(world_.random.in(0, kApart)), [this, id] { boot(id); });
    }
    for (std::size_t i = 0; i < plan_.strikes.size(); ++i) {
      if (!plan_.strikes[i].phase) strike_at(i, plan_.strikes[i].at);
    }
    if (plan_.changes) {
      for (std::size_t i = 0; i < plan_.changes->orders.size(); ++i)
        world_.at(plan_.changes->orders[i].at, [this, i] { order(i); });
    }
    Time step = 500 * kMs;
    Time patience = 6 * Time(kJobFence) + (plan_.changes ? kMostChanges : Time{});
    do {
      world_.run_until(world_.now + step);
    } while (!is_over() && world_.now < healed_ + patience);
    check_.at_the_end();
  }

  [[nodiscard]] JobOutcome outcome() const {
    JobOutcome out{"", 0, 0, 0, 0, world_.messages, check_.ended_early(), check_.has_led_to_the_end()};
    check_.count(out);
    return out;
  }

 private:
  [[nodiscard]] OverlayOptions options(Id id) const {
    OverlayOptions out;
    out.job = 1;
    out.self = id;
    out.members = plan_.members;
    out.newcomer = is_late(id);
    if (out.newcomer) out.address = fmt::format("host{}:1", id);
    out.arity = plan_.arity;
    out.fence = kJobFence;
    out.first_hello_bound = kJobFirstHello;
    out.max_logged = 8;  // but not what is gathered when the shells join
    out.digest = [](std::string_view bytes) { return digest_of(bytes); };
    return out;
  }

  // Who has started it: the leader all that join later.
  [[nodiscard]] Id parent_of(Id id) const { return is_late(id) ? 0 : (id - 1) / plan_.arity; }
  [[nodiscard]] bool is_late(Id id) const { return id >= plan_.members; }

  // Who was to start it may have ended before.
  void boot(Id id) {
    if (plan_.launched && id != 0) {
      const JobProcess& starter = shells_[parent_of(id)]->process();
      bool is_there = !starter.is_over() && starter.phase() != Phase::unborn;
      if (starter.phase() == Phase::unborn && world_.hosts[parent_of(id)].life == Life::unborn &&
          !is_lost(parent_of(id))) {
        return world_.at(world_.now + 10 * kMs, [this, id] { boot(id); });
      }
      if (!is_there) return lose(id);
    }
    world_.boot(id, options(id));
    shells_[id]->born();
  }

  [[nodiscard]] bool is_lost(Id id) const { return never_.contains(id); }
  void lose(Id id) {
    never_.insert(id);
    check_.harmed(id);
  }

  [[nodiscard]] bool is_over() const {
    for (Id id = 0; id < shells_.size(); ++id) {
      Life life = world_.hosts[id].life;
      bool may_go_on = life == Life::up || life == Life::frozen || (life == Life::unborn && !is_lost(id));
      if (may_go_on && !shells_[id]->process().is_over() && !frozen_for_good_.contains(id)) return false;
    }
    return true;
  }

  // ---- what is done to it

  void strike_at(std::size_t index, Time at) {
    if (struck_[index]) return;
    struck_[index] = true;
    world_.at(at, [this, index] { strike(plan_.strikes[index]); });
  }

  void strike(const Strike& each) {
    world_.say("* " + brief(each));
    bool is_born = world_.hosts[each.a].life != Life::unborn;
    switch (each.blow) {
      case Blow::signal:
      case Blow::launcher_signal:
        return in_process(each.a, [&each](JobShell& shell) {
          shell.ending().signal(each.signum, each.blow == Blow::launcher_signal);
        });
      case Blow::launcher_gone: return in_process(0, [](JobShell& shell) { shell.ending().launcher_gone(); });
      default: break;
    }
    if (!is_born || shells_[each.a]->process().is_over()) return;
    if (each.span < kEndless) healed_ = std::max(healed_, world_.now + each.span);
    each.blow < Blow::reset ? strike_host(each) : strike_links(each);
  }

  void in_process(Id id, const std::function<void(JobShell&)>& what) {
    if (world_.hosts[id].life == Life::unborn) return;
    world_.at_process(id, world_.now, [this, id, what] {
      shells_[id]->process().take_news();
      what(*shells_[id]);
    });
  }

  void strike_host(const Strike& each) {
    if (each.blow == Blow::kill) {
      if (world_.hosts[each.a].life == Life::dark) return;
      return shells_[each.a]->process().crash();
    }
    check_.harmed(each.a);
    if (each.blow == Blow::darken) return world_.darken(each.a);
    world_.freeze(each.a);
    if (each.span >= kEndless) frozen_for_good_.insert(each.a);
    world_.at(world_.now + each.span, [this, id = each.a] {
      if (!frozen_for_good_.contains(id)) world_.thaw(id);
    });
  }

  void strike_links(const Strike& each) {
    Time until = world_.now + each.span;
    if (each.blow == Blow::isolate) {
      check_.all_harmed();
      std::vector<bool> side(world_.hosts.size(), false);
      side.at(each.a) = true;
      return world_.cut(std::move(side), until);
    }
    check_.harmed(each.a);
    if (each.blow == Blow::slow) {
      world_.hosts[each.a].delay = each.span;
      return;
    }
    check_.harmed(each.b);
    if (each.a == each.b) return;
    if (each.blow == Blow::reset) return world_.reset_link(each.a, each.b);
    world_.cut_pair(each.a, each.b, until);
  }

  // ---- what it does

  void effect(Id id, const Effect& effect) override {
    if (const auto* entry = std::get_if<Deliver>(&effect); entry && id == 0) {
      const Entry& there = *world_.hosts[0].node->entry(entry->seq);
      if (world_.trace) world_.say("+ " + brief(there));
      check_.logged(there);
    }
    shells_[id]->effect(effect);
  }
  void stepped(Id id) override {
    check_.stepped(id);
    shells_[id]->process().stepped();
  }

  void failed(Id shell, const exits::Cause& cause, bool must) override { check_.failed(shell, cause, must); }
  void decided(Id shell, const exits::Cause& cause) override { check_.decided(shell, cause); }
  void named(Id shell, const exits::Cause& cause) override { check_.named(shell, cause); }
  void recorded(Id rank, std::uint32_t attempt, const std::string& record) override {
    check_.recorded(rank, attempt, record);
  }
  void started(const Start& start) override { check_.elastic().started(start); }
  void stopped(Id shell, Id rank) override { check_.elastic().stopped(shell, rank); }
  void answered(std::size_t order, bool /*is_error*/) override { check_.elastic().answered(order); }
  void moved(Id rank, Id to) override { check_.elastic().moved(rank, to); }
  void agreed(Id shell, Seq entry, const std::string& view) override {
    check_.elastic().agreed(shell, entry, view);
  }

  void order(std::size_t index) {
    const Order& each = plan_.changes->orders[index];
    world_.say("* " + brief(each));
    in_process(0, [this, index, &each](JobShell& leader) {
      if (leader.process().is_over()) return;
      check_.elastic().ordered(index);
      leader.elastic()->leader()->order(index, each);
      leader.process().go_on();
    });
  }

  void put_ready(Id shell) override {
    world_.at(world_.now + Time(world_.random.in(0, kMostCarried)), [this, shell] {
      in_process(0, [shell](JobShell& leader) {
        if (leader.process().is_over()) return;
        leader.elastic()->leader()->shrinks().ready(shell);
        leader.process().go_on();
      });
    });
  }

  void grows(Id id, const elastic::Growth& before) override {
    check_.elastic().grows(id);
    require(id == shells_.size(), fmt::format("shell {} is started, and {} is the next", id, shells_.size()));
    world_.reserve(id);
    Witness& witness = *this;
    shells_.push_back(std::make_unique<JobShell>(world_, plan_, id, witness, &before));
    Newcomer newcomer = make_newcomer(plan_.seed, id);
    if (newcomer.fate == Newcomer::Fate::never_comes) return lose(id);
    world_.at(world_.now + newcomer.comes, [this, id, newcomer] { come(id, newcomer); });
  }

  void come(Id id, const Newcomer& newcomer) {
    if (is_lost(id)) return;
    if (newcomer.fate == Newcomer::Fate::fails_to_start || shells_[0]->process().is_over()) {
      lose(id);
      return in_process(0, [id](JobShell& leader) {
        if (leader.process().is_over()) return;
        leader.elastic()->leader()->grows().start_failed(id);
        leader.process().go_on();
      });
    }
    world_.boot(id, options(id));
    shells_[id]->born();
    if (newcomer.fate != Newcomer::Fate::crashes) return;
    world_.at_process(id, world_.now + newcomer.crashes, [this, id] { shells_[id]->process().crash(); });
  }

  void dismisses(Id id) override {
    if (world_.hosts[id].life == Life::unborn) return lose(id);
    check_.harmed(id);
    in_process(id, [](JobShell& shell) { shell.starter_gone(); });
  }

  void entered(Id shell, Phase phase) override {
    check_.entered(shell, phase);
    for (std::size_t i = 0; i < plan_.strikes.size(); ++i) {
      const Strike& each = plan_.strikes[i];
      if (each.phase == phase && each.a == shell) strike_at(i, world_.now + each.at);
    }
  }

  void ended(Id shell) override {
    if (shells_[shell]->process().has_crashed()) check_.crashed(shell);
    check_.ended(shell);
    for (Id id = plan_.launched ? 1 : plan_.members; id < shells_.size(); ++id) {
      Time soon = world_.now + Time(world_.random.in(0, 5000));
      if (parent_of(id) == shell && world_.hosts[id].life != Life::unborn) {
        world_.at_process(id, soon, [this, id] { shells_[id]->starter_gone(); });
      }
      if (id != shell) continue;
      Id parent = parent_of(id);
      world_.at_process(parent, soon, [this, parent, id] { shells_[parent]->child_ended(id); });
    }
  }

  JobPlan plan_;
  JobCheck::Shells shells_;
  World world_;
  JobCheck check_;
  std::vector<bool> struck_;
  Idset never_;  // nobody starts them
  Idset frozen_for_good_;
  Time healed_{};
};

}  // namespace

JobOutcome run(const JobPlan& plan, bool trace) {
  JobRun job(plan, trace);
  std::string broken;
  try {
    job.go();
  } catch (const Broken& failure) {
    broken = failure.what;
  }
  JobOutcome out = job.outcome();
  out.broken = std::move(broken);
  return out;
}

}  // namespace nacre::sim
