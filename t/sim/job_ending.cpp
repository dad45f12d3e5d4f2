// SPDX-License-Identifier: Apache-2.0
//
// How a shell ends its job, as shell/core/shell_ending.cpp, and its group, as group/member.cpp.
#include <csignal>

#include <fmt/format.h>

#include "job_elastic.hpp"
#include "job_leader.hpp"

namespace nacre::sim {
namespace {

constexpr int kOfCode = 8;  // bits that a wait status has below the exit code

}  // namespace

Idset JobShell::all_ranks() const {
  Idset out;
  for (std::size_t rank = 0; rank < plan_.tasks.size(); ++rank) out.insert(static_cast<Id>(rank));
  return out;
}

bool JobShell::end_job(const exits::Cause& cause, const std::string& type) {
  if (elastic_ && elastic_->fails_to_join(cause)) return false;
  if (end_.raised(cause) != exits::Action::end) return false;
  bool of_shell = type.empty();
  ask(group::statement_of(
      group::JobException{of_shell ? "exec" : type, 0, cause.message, cause.code, id_, of_shell}));
  end_tasks();
  return true;
}

void JobShell::on_exception(const group::JobException& exception) {
  if (exception.severity != 0) return;
  bool is_cause = !end_.is_decided();
  exits::Action action = end_.ordered({exception.message, exception.exit_code, exception.origin});
  if (is_cause && end_.is_decided()) {
    witness_.decided(id_, *end_.cause());
    if (leads()) witness_.named(id_, *end_.cause());
  }
  if (action == exits::Action::end) end_tasks();
}

void JobShell::on_cut_off(const std::string& why) {
  if (elastic_) elastic_->drop_all();
  if (end_.cut_off(why) == exits::Action::kill) kill_tasks(SIGKILL);
}

void JobShell::on_lost(Id shell) {
  if (elastic_) return giving_up_ ? void() : elastic_->lost(shell);
  if (!leads() || giving_up_) return;
  Idset fresh = all_.add(plan_.ranks_of(shell), exits::Record::lost());
  clients_.lost(world_.now, fresh, exits::Record::lost());
  exits::Cause cause{fmt::format("shell {} is lost", shell), std::nullopt, id_};
  if (plan_.tolerant)
    return ask(group::statement_of(group::JobException{"node-failure", 2, cause.message, cause.code, id_}));
  witness_.failed(id_, cause, true);
  end_job(cause, "node-failure");
}

// ---- signals, and who has started it -------------------------------------------------------

void JobShell::signal(int signum, bool from_launcher) {
  if (is_over() || giving_up_) return;
  say(fmt::format("gets {}", value::signal_name(signum)));
  exits::TaskProgress tasks;
  auto start = barriers_.find("start");
  tasks.started = start != barriers_.end() && start->second;
  tasks.over = leads() && all_.ranks().size() >= plan_.tasks.size();
  tasks.running = running_ > 0;
  exits::Work work = exits::work_for(tasks, from_launcher);
  bool is_joining = phase_ == Phase::join || phase_ == Phase::create;
  auto send = [&](int number) {
    if (is_joining) return;
    if (from_launcher) return ask(Signal{static_cast<std::uint32_t>(number), std::nullopt});
    signal_tasks(number);
  };
  exits::Cause cause = exits::ended_by_signal(signum, id_);
  double now = static_cast<double>(world_.now.count()) / 1e6;
  bool again = signum == SIGINT && now - interrupted_at_ <= exits::JobEnd::kInterruptWindow;
  if (signum == SIGINT) interrupted_at_ = now;
  bool must = again || (phase_ <= Phase::start_barrier && !tasks.started);
  bool goes = elastic_ && (elastic_->leaves() || elastic_->is_joining());
  witness_.failed(id_, cause, must && phase_ < Phase::end && !goes);
  switch (end_.signalled(signum, now, work)) {
    case exits::Action::nothing: break;
    case exits::Action::pass_on: send(signum); break;
    case exits::Action::end: end_job(cause, {}); break;
    case exits::Action::kill: send(SIGKILL); break;
  }
  go_on();
}

void JobShell::launcher_gone() {
  if (is_over() || giving_up_) return;
  exits::Cause cause{"the launcher has gone", std::nullopt, id_};
  witness_.failed(id_, cause, phase_ < Phase::leave);
  end_job(cause, "exec");
  go_on();
}

void JobShell::starter_gone() {
  if (is_over() || joined_) return;
  say("is without who has started it");
  starter_gone_ = true;
  go_on();
}

void JobShell::child_ended(Id child) {
  if (is_over()) return;
  world_.on(id_, [child](Node& node) { node.suspect(child); });
}

// ---- the end of the tasks ------------------------------------------------------------------

bool JobShell::end_tasks(Time grace) {
  if (elastic_) elastic_->drop_all();
  for (const Task& each : tasks_) {
    if (each.running) victims_.insert(each.rank);
  }
  if (running_ == 0 || shutdown_) return false;
  shutdown_ = true;
  kill_tasks(SIGTERM);
  later(grace, [this] { kill_again(); });
  return true;
}

void JobShell::signal_tasks(int signum) {
  kill_tasks(signum);
  if (elastic_) elastic_->signalled();
}

void JobShell::kill_again() {
  kill_tasks(SIGKILL);
  later(kSecond, [this] { kill_again(); });
}

void JobShell::kill_tasks(int signum) {
  for (Task& each : tasks_) {
    if (each.running) kill(each, signum);
  }
}

void JobShell::kill(Task& task, int signum) {
  Reaction reaction = signum == SIGKILL ? Reaction::dies : task.plan.reaction;
  if (reaction == Reaction::ignores) return;
  bool exits = reaction == Reaction::exits;
  if (exits && std::exchange(task.reacts, true)) return;
  int raw = exits ? task.plan.code << kOfCode : signum;
  Time soon = exits ? task.plan.reacts : Time(world_.random.in(10, 2000));
  later(soon, [this, &task, raw, attempt = task.attempt] {
    if (task.attempt == attempt) end_task(task, raw);
  });
}

void JobShell::end_task(Task& task, int raw) {
  if (!std::exchange(task.running, false)) return;
  task.ended = true;
  --running_;
  task.status = value::WaitStatus::of_raw(raw);
  say(fmt::format("has seen task {} end: {}", task.rank, task.status.str()));
  if (elastic_) witness_.stopped(id_, task.rank);
  if (!elastic_ || !elastic_->keeps(task)) end_for_good(task);
}

void JobShell::end_for_good(Task& task) {
  call(Place::task_exit);
  if (!is_over()) record_end(task.rank, record_of(task));
}

exits::Record JobShell::record_of(const Task& task) const {
  return victims_.contains(task.rank) ? exits::Record::victim(task.status) : exits::Record::of(task.status);
}

// It counts as that of the start that the job waits for.
void JobShell::record_end(Id task, const exits::Record& record) {
  Idset rank = Idset::range(task, task);
  std::uint32_t attempt = elastic_ ? elastic_->job().attempt_of(task) : 1;
  mine_.add(rank, record);
  witness_.recorded(task, attempt, record.str());
  if (cut_off_ && !removed_) return;
  Idset number = elastic_ ? elastic_->number_of(task, attempt) : rank;
  world_.on(id_, [&](Node& node) { node.exited(number, group::statement_of(group::Ended{number, record})); });
}

void JobShell::note_ended(const Idset& ranks, const exits::Record& record) {
  Idset fresh = all_.add(ranks, record);
  if (fresh.empty()) return;
  clients_.record(world_.now, fresh, record);
  if (elastic_) elastic_->leader()->ended(fresh);
}

// ---- the group -----------------------------------------------------------------------------

void JobShell::effect(const Effect& effect) {
  if (const auto* entry = std::get_if<Deliver>(&effect)) {
    deliver(*world_.hosts[id_].node->entry(entry->seq));
  } else if (const auto* value = std::get_if<Released>(&effect)) {
    std::string barrier = value->name.substr(0, value->name.find('@'));
    if (waiting_.erase(barrier) == 0) return;
    if (barrier != "join") {
      return tell([this, barrier] {
        barriers_[barrier] = true;
        if (elastic_) elastic_->passed(barrier);
      });
    }
    std::size_t count = 0;
    for (const auto& [bytes, ids] : std::get<Gathered>(value->value)) count += ids.size();
    tell([this, count] {
      joined_ = true;
      gathered_ = count;
    });
  } else if (const auto* reported = std::get_if<Reported>(&effect)) {
    std::vector<group::Ended> ended;
    for (const TaskReport& each : reported->exited) {
      auto parsed = group::ended_of(each);
      require(parsed.has_value(), "a record can be read");
      ended.push_back(*std::move(parsed));
    }
    tell_job([this, ended] {
      for (const group::Ended& each : ended) {
        elastic_ ? elastic_->leader()->reported(each) : note_ended(each.tasks, each.record);
      }
    });
  } else if (const auto* death = std::get_if<Die>(&effect)) {
    say(fmt::format("is cut off: {}", death->why));
    cut_off(death->why);
  } else if (const auto* joined = std::get_if<Joined>(&effect)) {
    tell([this, view = joined->view] { elastic_->joined(view); });
  } else if (std::holds_alternative<Leave>(effect)) {
    say("leaves the job");
    removed_ = cut_off_ = true;
    tell_job([this] { elastic_->leave(); });
    end_collectives();
  } else if (std::holds_alternative<Finished>(effect)) {
    finished_ = true;
    tell([this] { look_whether_it_may_go(); });
  }
}

void JobShell::stepped() {
  if (news_.empty() || telling_ || scheduled_ || is_over()) return;
  scheduled_ = true;
  world_.at_process(id_, world_.now, [this] {
    scheduled_ = false;
    tell_news();
    go_on();
  });
}

void JobShell::tell_news() {
  if (telling_) return;
  telling_ = true;
  while (!news_.empty() && !is_over()) {
    auto next = std::move(news_.front());
    news_.pop_front();
    next();
  }
  telling_ = false;
}

void JobShell::deliver(const Entry& entry) {
  if (elastic_) elastic_->deliver(entry);
  if (const auto* view = std::get_if<View>(&entry.body)) {
    for (Id dead : view->dead.ids()) tell_job([this, dead] { on_lost(dead); });
  } else if (const auto* job_end = std::get_if<End>(&entry.body)) {
    code_ = static_cast<int>(job_end->code);
    if (!gives_up_absent_) return;
    tell([this] { world_.on(id_, [](Node& node) { node.suspect_absent(); }); });
  } else if (const auto* statement = std::get_if<ExceptionEntry>(&entry.body)) {
    group::JobException raised = group::exception_of(*statement);
    if (raised.severity == 0)
      tell([this] { world_.on(id_, [](Node& node) { node.expect_end(node.options().fence); }); });
    if (raised.severity == 0 && phase_ == Phase::join) tell([this, raised] { on_exception(raised); });
    tell_job([this, raised] { on_exception(raised); });
  } else if (const auto* sent = std::get_if<Signal>(&entry.body)) {
    tell_job([this, number = static_cast<int>(sent->number)] {
      if (!giving_up_) signal_tasks(number);
    });
  }
  bool may_change = std::holds_alternative<View>(entry.body) || std::holds_alternative<Event>(entry.body) ||
                    std::holds_alternative<Campaign>(entry.body);
  if (elastic_ && may_change) tell_job([this, seq = entry.seq] { elastic_->agree(seq); });
}

void JobShell::cut_off(const std::string& why) {
  removed_ = false;
  if (std::exchange(cut_off_, true)) return tell([this] { look_whether_it_may_go(); });
  tell_job([this, why] { on_cut_off(why); });
  end_collectives();
}

void JobShell::end_collectives() {
  for (const std::string& name : std::exchange(waiting_, {})) {
    if (name != "join") tell([this, name] { barriers_[name] = true; });
  }
  tell([this] { look_whether_it_may_go(); });
}

void JobShell::serve() {
  serving_ = true;
  for (auto& each : std::exchange(kept_, {})) news_.push_back(std::move(each));
  tell_news();
}

void JobShell::enter(const std::string& barrier) {
  barriers_[barrier] = cut_off_;
  if (cut_off_) return;
  waiting_.insert(barrier);
  bool is_for_all = barrier == "exit" || barrier == "end";
  Scope scope = is_for_all ? Scope{} : own_scope_;
  std::string name = scope.from == 0 ? barrier : fmt::format("{}@{}", barrier, scope.from);
  world_.on(id_, [&](Node& node) { static_cast<void>(node.enter(name, Merge::max, std::int64_t{0}, scope)); });
}

void JobShell::ask(RequestBody body) {
  if (cut_off_) return;
  world_.on(id_, [&](Node& node) { static_cast<void>(node.request(std::move(body))); });
}

}  // namespace nacre::sim
