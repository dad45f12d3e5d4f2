// SPDX-License-Identifier: Apache-2.0
//
// The phases of a shell's job.
#include "job_shell.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "job_elastic.hpp"
#include "job_leader.hpp"

namespace nacre::sim {
namespace {

constexpr std::size_t kBatch = 2;            // tasks that are started together
constexpr std::uint64_t kLeisure = 900'000;  // microseconds, at most
constexpr std::uint64_t kHaste = 2000;

}  // namespace

JobShell::JobShell(World& world, const JobPlan& plan, Id id, Witness& witness, const elastic::Growth* before)
    : world_(world), plan_(plan), id_(id), witness_(witness), clients_(plan.seed, plan.tasks.size(), plan.policy) {
  for (Id rank = 0; rank < plan_.tasks.size(); ++rank) {
    if (plan_.tasks[rank].shell == id_) tasks_.push_back({rank, plan_.tasks[rank]});
  }
  if (!plan_.changes) return;
  own_scope_ = {0, 0};
  elastic_ = std::make_unique<JobElastic>(*this, before);
}
JobShell::~JobShell() = default;

void JobShell::say(const std::string& line) const {
  if (world_.trace) world_.say(fmt::format("# {} {}", id_, line));
}

void JobShell::born() {
  enter_phase(Phase::join);
  if (is_late()) return;
  waiting_.insert("join");
  world_.on(id_, [](Node& node) {
    Result<void> entered = node.enter("join", Merge::gather, Bytes("offer"));
    require(entered.has_value(), "the shells can join");
  });
}

void JobShell::later(Time delay, const std::function<void()>& what) {
  world_.at_process(id_, world_.now + delay, [this, what] {
    tell_news();
    if (is_over()) return;
    what();
    go_on();
  });
}

void JobShell::enter_phase(Phase phase) {
  phase_ = phase;
  say(fmt::format("is in {}", name_of(phase)));
  witness_.entered(id_, phase);
  if ((phase == Phase::finish || phase == Phase::close) && elastic_ && leads()) elastic_->leader()->decide_losses();
}

void JobShell::go_on() {
  while (!is_over() && !busy_ && step()) {
  }
}

bool JobShell::go_to(Phase phase) {
  enter_phase(phase);
  return true;
}

bool JobShell::step() {
  bool ends = end_.is_ending();
  switch (phase_) {
    case Phase::join: return join();
    case Phase::create: return handle(Place::create, Phase::load);
    case Phase::load: return ends ? go_to(Phase::exit) : handle(Place::load, Phase::init);
    case Phase::init: return ends ? go_to(Phase::exit) : handle(Place::init, Phase::init_barrier);
    case Phase::init_barrier:
      if (!barriers_.contains("init") && ends) return go_to(Phase::exit);
      return wait_for("init", Phase::post_init);
    case Phase::post_init: return ends ? go_to(Phase::exit) : handle(Place::post_init, Phase::tasks);
    case Phase::tasks:
      if (ends) return go_to(Phase::exit);
      start_batch(0);
      return false;
    case Phase::start: return ends ? go_to(Phase::finish) : handle(Place::start, Phase::start_barrier);
    case Phase::start_barrier: return wait_for("start", Phase::finish) && all_started();
    default: return step_to_the_end();
  }
}

bool JobShell::step_to_the_end() {
  switch (phase_) {
    case Phase::finish:
      return (elastic_ ? elastic_->may_finish() : running_ == 0) && handle(Place::finish, Phase::all_tasks);
    case Phase::all_tasks:
      if (leads() && !end_.is_ending() && all_.ranks().size() < plan_.tasks.size()) return false;
      if (leads() && elastic_) elastic_->leader()->tasks_are_over();
      return go_to(Phase::complete);
    case Phase::complete:
      executed_ = true;
      return leads() ? handle(Place::complete, Phase::close) : go_to(Phase::close);
    case Phase::close:
      if (elastic_) elastic_->all_put();
      return go_to(Phase::exit_barrier);
    case Phase::exit_barrier: return is_past("exit") && go_to(executed_ ? Phase::exit : Phase::end);
    case Phase::exit: return handle(Place::exit, executed_ ? Phase::end : Phase::close);
    case Phase::end:
      if (leads() && elastic_) elastic_->leader()->job_over();
      return go_to(Phase::end_barrier);
    case Phase::end_barrier:
      if (!is_past("end")) return false;
      leave_job();
      return true;
    default: return false;
  }
}

// ---- the parts of phases -------------------------------------------------------------------

// Of the job, or of those that have joined with this one.
bool JobShell::all_started() {
  if (!elastic_ || !barriers_["start"]) return true;
  elastic_->ready();
  if (leads()) elastic_->leader()->all_started();
  return true;
}

bool JobShell::wait_for(const std::string& barrier, Phase next) {
  if (!is_past(barrier) && !end_.is_ending()) return false;
  return go_to(next);
}

bool JobShell::is_past(const std::string& barrier) {
  if (!barriers_.contains(barrier)) enter(barrier);
  return barriers_.find(barrier)->second;
}

// What a handler takes is up to the seed.
bool JobShell::handle(Place place, Phase next) {
  busy_ = true;
  std::uint64_t most = plan_.leisurely ? kLeisure : kHaste;
  later(Time(world_.random.in(0, most)), [this, place, next] {
    busy_ = false;
    bool returned = call(place) && joins(place);
    if (is_over() || giving_up_) return;
    if (place == Place::create && !is_late()) serve();
    if (place == Place::init && is_late()) serve();
    if (is_over()) return;
    if (!returned && place == Place::init) return enter_phase(Phase::exit);
    if (!returned && place == Place::start) return enter_phase(Phase::finish);
    enter_phase(next);
  });
  return false;
}

// False: it was to join the job, and cannot.
bool JobShell::joins(Place place) {
  if (!is_late()) return true;
  if (place == Place::load) elastic_->take_state();
  bool fails = place == Place::init && make_newcomer(plan_.seed, id_).fate == Newcomer::Fate::fails;
  if (fails) static_cast<void>(elastic_->fails_to_join({fmt::format("shell {} cannot join", id_), 1, id_}));
  return !fails;
}

bool JobShell::call(Place place) {
  bool returned = true;
  for (const Failure& each : plan_.failures) {
    if (each.shell != id_ || each.place != place || is_over()) continue;
    if (!failed_.emplace(place, each.how).second) continue;
    say(brief(each));
    returned = fail(each) && returned;
  }
  return returned;
}

bool JobShell::fail(const Failure& how) {
  if (how.how == How::crashes) {
    crash();
    return false;
  }
  exits::Cause cause{fmt::format("shell {}: {}", id_, brief(how)), 1, id_};
  bool returns_error = how.how == How::fails;
  if (how.how != How::fails) cause.code = how.code;
  if (returns_error && how.place == Place::task_exit) cause.code.reset();
  if (elastic_ && (elastic_->leaves() || elastic_->fails_to_join(cause))) return !returns_error;
  witness_.failed(id_, cause, true);
  if (how.place == Place::create) {
    give_up(cause, false);
  } else {
    end_job(cause, how.how == How::raises || how.place == Place::task_exit ? "test" : "");
  }
  return !returns_error;
}

bool JobShell::join() {
  if (is_late()) {
    bool is_in_vain = starter_gone_ || cut_off_ || end_.is_ending() || elastic_->has_ended();
    if (!is_in_vain && !elastic_->has_state()) return false;
    joined_ = !is_in_vain;
    joined_ ? enter_phase(Phase::create) : end_process(1);
    return true;
  }
  if (!gathered_ && !starter_gone_ && !end_.is_ending() && !cut_off_) return false;
  if (end_.is_ending()) {
    give_up({end_.cause()->message, 1, id_}, true);
  } else if (!gathered_) {
    end_process(1);
  } else if (*gathered_ < plan_.members) {
    // All fail alike: the leader raises it.
    exits::Cause cause{"shells did not join the job", 1, id_};
    if (leads()) witness_.failed(id_, cause, true);
    give_up(cause, !leads());
  } else {
    enter_phase(Phase::create);
  }
  return true;
}

// ---- tasks ---------------------------------------------------------------------------------

void JobShell::start_batch(std::size_t first) {
  busy_ = true;
  std::size_t last = std::min(first + kBatch, tasks_.size());
  bool failed = false;
  for (std::size_t i = first; i < last && !failed; ++i) failed = !call(Place::task_init);
  if (is_over()) return;
  bool starts = !failed && !end_.is_ending();
  for (std::size_t i = first; i < last && starts; ++i) take_up(tasks_[i]);
  for (std::size_t i = first; i < last && starts; ++i) {
    if (tasks_[i].running) call(Place::task_fork);
    if (is_over()) return;
  }
  bool more = starts && last < tasks_.size() && !end_.is_ending();
  later(Time(world_.random.in(0, plan_.leisurely ? kLeisure : kHaste)), [this, more, last] {
    busy_ = false;
    if (more && !end_.is_ending()) return start_batch(last);
    if (elastic_) elastic_->are_started();
    enter_phase(Phase::start);
  });
}

void JobShell::take_up(Task& task) {
  task.started = true;
  if (int code = task.plan.not_started; code != 0) {
    task.ended = true;
    task.status = value::WaitStatus::exited(code);
    exits::Cause cause{fmt::format("task {} was not started", task.rank), code, id_};
    witness_.failed(id_, cause, true);
    record_end(task.rank, exits::Record::not_started(code));
    end_job(cause, "exec");
    return;
  }
  task.running = true;
  ++running_;
  Idset number = elastic_ ? elastic_->number_of(task.rank, task.attempt) : Idset::range(task.rank, task.rank);
  if (!cut_off_) world_.on(id_, [&](Node& node) { node.started(number); });
  if (elastic_) elastic_->started(task);
  later(task.plan.runs, [this, &task, attempt = task.attempt] {
    if (task.attempt == attempt) end_task(task, task.plan.raw);
  });
  if (end_.is_ending() && !end_tasks()) kill(task, SIGTERM);
}

// ---- the end -------------------------------------------------------------------------------

// It has not become a Shell.
void JobShell::give_up(const exits::Cause& why, bool is_logged) {
  giving_up_ = true;
  bool is_first = end_.raised(why) == exits::Action::end;
  if (is_first && !is_logged)
    ask(group::statement_of(group::JobException{"exec", 0, why.message, why.code, id_, true}));
  serve();
  if (joined_ || !leads()) {
    enter("exit");
    enter("end");
  }
  enter_phase(Phase::end_barrier);
  if (!joined_) leave();
}

int JobShell::job_code() const {
  static const exits::Outcomes kNone;
  const exits::Outcomes& outcomes = leads() ? all_ : mine_;
  return end_.code(giving_up_ ? kNone : outcomes, leads() ? plan_.policy : exits::Policy::max());
}

void JobShell::leave_job() {
  if (leads() && elastic_) elastic_->leader()->job_over();
  if (leads() && !giving_up_) all_.add(all_ranks(), exits::Record::victim({}));
  leave();
}

void JobShell::leave() {
  if (leaving_) return;
  enter_phase(Phase::leave);
  leaving_ = true;
  if (!joined_) {
    later(kUnjoinedGrace, [this] {
      late_ = true;
      look_whether_it_may_go();
    });
    gives_up_absent_ = true;
    if (code_) world_.on(id_, [](Node& node) { node.suspect_absent(); });
  }
  if (leads() && !finished_) ask(End{static_cast<std::uint32_t>(job_code())});
  if (removed_) world_.on(id_, [](Node& node) { node.tasks_ended(); });
  look_whether_it_may_go();
}

void JobShell::look_whether_it_may_go() {
  if (!leaving_ || is_over()) return;
  if (!finished_ && (!cut_off_ || removed_) && !late_) return;
  if (code_ && (finished_ || cut_off_)) end_.agreed(*code_);
  end_process(job_code());
}

void JobShell::end_process(int code) {
  exit_code_ = code;
  if (leads()) clients_.end(world_.now, code);
  say(fmt::format("exits with {}", code));
  enter_phase(Phase::over);
  if (world_.lives(id_)) world_.crash(id_);  // what is left of its links ends with it
  witness_.ended(id_);
}

void JobShell::crash() {
  if (is_over()) return;
  crashed_ = true;
  say("crashes");
  world_.crash(id_);
  enter_phase(Phase::over);
  witness_.ended(id_);
}

}  // namespace nacre::sim
