// SPDX-License-Identifier: Apache-2.0
#include "job_shell.hpp"

#include <variant>
#include <vector>

#include <fmt/format.h>

#include "group/codec.hpp"
#include "job_elastic.hpp"
#include "job_leader.hpp"

namespace nacre::sim {

JobShell::JobShell(World& world, const JobPlan& plan, Id id, Witness& witness, const elastic::Growth* before)
    : process_(world, plan, id, witness, [this] { return step(); }),
      group_(process_),
      tasks_(*this),
      ending_(*this),
      records_(plan),
      departure_(*this) {
  if (plan.changes) elastic_ = std::make_unique<JobElastic>(*this, before);
}
JobShell::~JobShell() = default;

void JobShell::born() {
  enter_phase(Phase::join);
  if (!process_.is_late()) group_.join();
}

void JobShell::starter_gone() {
  if (process_.is_over() || group_.has_joined()) return;
  process_.trace("is without who has started it");
  starter_gone_ = true;
  process_.go_on();
}

void JobShell::child_ended(Id child) {
  if (process_.is_over()) return;
  process_.on_node([child](Node& node) { node.suspect(child); });
}

// ---- the phases ----------------------------------------------------------------------------

void JobShell::enter_phase(Phase phase) {
  process_.enter(phase);
  if ((phase == Phase::finish || phase == Phase::close) && elastic_ && process_.leads())
    elastic_->leader()->losses().decide_all();
}

bool JobShell::go_to(Phase phase) {
  enter_phase(phase);
  return true;
}

bool JobShell::step() {
  bool ends = ending_.is_ending();
  switch (process_.phase()) {
    case Phase::join: return join();
    case Phase::create: return handle(Place::create, Phase::load);
    case Phase::load: return ends ? go_to(Phase::exit) : handle(Place::load, Phase::init);
    case Phase::init: return ends ? go_to(Phase::exit) : handle(Place::init, Phase::init_barrier);
    case Phase::init_barrier:
      if (!group_.has_entered("init") && ends) return go_to(Phase::exit);
      return wait_for("init", Phase::post_init);
    case Phase::post_init: return ends ? go_to(Phase::exit) : handle(Place::post_init, Phase::tasks);
    case Phase::tasks:
      if (ends) return go_to(Phase::exit);
      tasks_.start(0, [this] {
        if (elastic_) elastic_->restart().are_started();
        enter_phase(Phase::start);
      });
      return false;
    case Phase::start: return ends ? go_to(Phase::finish) : handle(Place::start, Phase::start_barrier);
    case Phase::start_barrier: return wait_for("start", Phase::finish) && all_started();
    default: return step_to_the_end();
  }
}

bool JobShell::step_to_the_end() {
  const bool leads = process_.leads();
  switch (process_.phase()) {
    case Phase::finish:
      return (elastic_ ? elastic_->restart().may_finish() : !tasks_.any_runs()) &&
             handle(Place::finish, Phase::all_tasks);
    case Phase::all_tasks:
      if (leads && !ending_.is_ending() && !records_.are_complete()) return false;
      if (leads && elastic_) elastic_->leader()->tasks_are_over();
      return go_to(Phase::complete);
    case Phase::complete:
      executed_ = true;
      return leads ? handle(Place::complete, Phase::close) : go_to(Phase::close);
    case Phase::close:
      if (elastic_) elastic_->removal().all_put();
      return go_to(Phase::exit_barrier);
    case Phase::exit_barrier: return group_.is_past("exit") && go_to(executed_ ? Phase::exit : Phase::end);
    case Phase::exit: return handle(Place::exit, executed_ ? Phase::end : Phase::close);
    case Phase::end:
      if (leads && elastic_) elastic_->leader()->job_over();
      return go_to(Phase::end_barrier);
    case Phase::end_barrier:
      if (!group_.is_past("end")) return false;
      leave_job();
      return true;
    default: return false;
  }
}

// ---- the parts of phases -------------------------------------------------------------------

// Of the job, or of those that have joined with this one.
bool JobShell::all_started() {
  if (!elastic_ || !group_.has_started()) return true;
  elastic_->newcomer().ready();
  if (process_.leads()) elastic_->leader()->answers().all_started();
  return true;
}

bool JobShell::wait_for(const std::string& barrier, Phase next) {
  if (!group_.is_past(barrier) && !ending_.is_ending()) return false;
  return go_to(next);
}

bool JobShell::handle(Place place, Phase next) {
  process_.hold(process_.plan().most_held(), [this, place, next] {
    bool returned = call(place) && joins(place);
    if (process_.is_over() || giving_up_) return;
    if (place == Place::create && !process_.is_late()) process_.serve();
    if (place == Place::init && process_.is_late()) process_.serve();
    if (process_.is_over()) return;
    if (!returned && place == Place::init) return enter_phase(Phase::exit);
    if (!returned && place == Place::start) return enter_phase(Phase::finish);
    enter_phase(next);
  });
  return false;
}

// False: it was to join the job, and cannot.
bool JobShell::joins(Place place) {
  if (!process_.is_late()) return true;
  const Id id = process_.id();
  if (place == Place::load) elastic_->newcomer().take_state();
  bool fails = place == Place::init && make_newcomer(process_.plan().seed, id).fate == Newcomer::Fate::fails;
  if (fails) static_cast<void>(elastic_->newcomer().fails({fmt::format("shell {} cannot join", id), 1, id}));
  return !fails;
}

bool JobShell::call(Place place) {
  bool returned = true;
  for (const Failure& each : process_.plan().failures) {
    if (each.shell != process_.id() || each.place != place || process_.is_over()) continue;
    if (!failed_.emplace(place, each.how).second) continue;
    process_.trace(brief(each));
    returned = fail(each) && returned;
  }
  return returned;
}

bool JobShell::fail(const Failure& how) {
  if (how.how == How::crashes) {
    process_.crash();
    return false;
  }
  const Id id = process_.id();
  exits::Cause cause{fmt::format("shell {}: {}", id, brief(how)), 1, id};
  bool returns_error = how.how == How::fails;
  if (how.how != How::fails) cause.code = how.code;
  if (returns_error && how.place == Place::task_exit) cause.code.reset();
  if (elastic_ && (elastic_->removal().has_begun() || elastic_->newcomer().fails(cause))) return !returns_error;
  process_.witness().failed(id, cause, true);
  if (how.place == Place::create) {
    give_up(cause, false);
  } else {
    ending_.end_job(cause, how.how == How::raises || how.place == Place::task_exit ? "test" : "");
  }
  return !returns_error;
}

bool JobShell::join() {
  const Id id = process_.id();
  const bool is_in_vain = starter_gone_ || group_.is_cut_off() || ending_.is_ending();
  if (process_.is_late()) {
    const bool never = is_in_vain || elastic_->newcomer().has_ended();
    if (!never && !elastic_->newcomer().has_state()) return false;
    if (never) {
      end_process(1);
    } else {
      group_.join_late();
      enter_phase(Phase::create);
    }
    return true;
  }
  const auto gathered = group_.gathered();
  if (!gathered && !is_in_vain) return false;
  if (ending_.is_ending()) {
    give_up({ending_.state().cause()->message, 1, id}, true);
  } else if (!gathered) {
    end_process(1);
  } else if (*gathered < process_.plan().members) {
    // All fail alike: the leader raises it.
    exits::Cause cause{"shells did not join the job", 1, id};
    if (process_.leads()) process_.witness().failed(id, cause, true);
    give_up(cause, !process_.leads());
  } else {
    enter_phase(Phase::create);
  }
  return true;
}

// ---- the end -------------------------------------------------------------------------------

// It has not become a Shell.
void JobShell::give_up(const exits::Cause& why, bool is_logged) {
  giving_up_ = true;
  bool is_first = ending_.raised(why);
  if (is_first && !is_logged)
    group_.ask(group::encode(group::JobException{"exec", 0, why.message, why.code, process_.id(), true}));
  process_.serve();
  if (group_.has_joined() || !process_.leads()) {
    group_.enter("exit");
    group_.enter("end");
  }
  enter_phase(Phase::end_barrier);
  if (!group_.has_joined()) departure_.begin();
}

void JobShell::leave_job() {
  const bool leads = process_.leads();
  if (leads && elastic_) elastic_->leader()->job_over();
  if (leads && !giving_up_) records_.add_unstarted();
  departure_.begin();
}

void JobShell::end_process(int code) {
  if (process_.leads()) records_.end(process_.world().now, code);
  process_.exit(code);
}

// ---- what its node reports -----------------------------------------------------------------

void JobShell::effect(const Effect& effect) {
  if (const auto* entry = std::get_if<Deliver>(&effect)) {
    deliver(*process_.world().hosts[process_.id()].node->entry(entry->seq));
  } else if (const auto* value = std::get_if<Released>(&effect)) {
    group_.released(*value, [this](const std::string& barrier) {
      if (elastic_) elastic_->restart().whole().passed(barrier);
    });
  } else if (const auto* what = std::get_if<Reported>(&effect)) {
    reported(*what);
  } else if (const auto* death = std::get_if<Die>(&effect)) {
    process_.trace(fmt::format("is cut off: {}", death->why));
    cut_off(death->why);
  } else if (const auto* joined = std::get_if<Joined>(&effect)) {
    process_.post([this, view = joined->view] { elastic_->newcomer().joined(view); });
  } else if (std::holds_alternative<Leave>(effect)) {
    process_.trace("leaves the job");
    group_.leave();
    process_.post_of_job([this] { elastic_->removal().taken_out(); });
    group_.end_collectives();
    process_.post([this] { departure_.go_if_due(); });
  } else if (std::holds_alternative<Finished>(effect)) {
    departure_.finished();
  }
}

void JobShell::reported(const Reported& what) {
  std::vector<group::Ended> ended;
  for (const TaskReport& each : what.exited) {
    auto parsed = group::decode(each);
    require(parsed.has_value(), "a record can be read");
    ended.push_back(*std::move(parsed));
  }
  process_.post_of_job([this, ended] {
    for (const group::Ended& each : ended) {
      if (elastic_) {
        elastic_->leader()->reported(each);
      } else {
        records_.add(process_.world().now, each.tasks, each.record);
      }
    }
  });
}

void JobShell::deliver(const Entry& entry) {
  if (elastic_) elastic_->deliver(entry);
  if (const auto* view = std::get_if<View>(&entry.body)) {
    for (Id dead : view->dead.ids()) process_.post_of_job([this, dead] { ending_.lost(dead); });
  } else if (const auto* job_end = std::get_if<End>(&entry.body)) {
    departure_.learn(static_cast<int>(job_end->code));
  } else if (const auto* statement = std::get_if<ExceptionEntry>(&entry.body)) {
    group::JobException raised = group::decode(*statement);
    if (raised.severity == 0)
      process_.post([this] { process_.on_node([](Node& node) { node.expect_end(node.options().fence); }); });
    if (raised.severity == 0 && process_.phase() == Phase::join)
      process_.post([this, raised] { ending_.raised_by_any(raised); });
    process_.post_of_job([this, raised] { ending_.raised_by_any(raised); });
  } else if (const auto* sent = std::get_if<Signal>(&entry.body)) {
    process_.post_of_job([this, number = static_cast<int>(sent->number)] {
      if (!giving_up_) tasks_.signal(number);
    });
  }
  bool may_change = std::holds_alternative<View>(entry.body) || std::holds_alternative<Event>(entry.body) ||
                    std::holds_alternative<Campaign>(entry.body);
  if (elastic_ && may_change) process_.post_of_job([this, seq = entry.seq] { elastic_->agree(seq); });
}

void JobShell::cut_off(const std::string& why) {
  if (group_.cut_off()) {
    process_.post_of_job([this, why] { ending_.cut_off(why); });
    group_.end_collectives();
  }
  process_.post([this] { departure_.go_if_due(); });
}

}  // namespace nacre::sim
