// SPDX-License-Identifier: Apache-2.0
#include "job_restart.hpp"

#include <csignal>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "elastic/recovery.hpp"
#include "job_removal.hpp"
#include "job_shell.hpp"

namespace nacre::sim {
namespace {

constexpr std::uint64_t kMostHeld = 20'000;  // microseconds that plugins hold up a start

double seconds_of(Time time) { return static_cast<double>(time.count()) / 1e6; }

}  // namespace

JobRestart::JobRestart(JobShell& shell, const JobReplica& replica, const JobRemoval& removal)
    : shell_(shell),
      replica_(replica),
      removal_(removal),
      kept_(shell.tasks()),
      starts_(shell),
      arrivals_(shell, replica, starts_),
      whole_(shell, replica, kept_, starts_),
      spares_(shell, replica, kept_, whole_) {}

bool JobRestart::ending() const { return shell_.ending().is_ending(); }

void JobRestart::started(JobTask& task) {
  kept_.erase(task.rank);
  starts_.started(task);
  arrivals_.started(task.rank);
}

void JobRestart::are_started() {
  is_starting_ = false;
  kept_.erase_starting();  // they could not start
  whole_.end_tasks();
}

// ---- an end of a task ------------------------------------------------------------------------

bool JobRestart::wants(const JobTask& task, bool is_ordered) const {
  exits::Record record = shell_.tasks().record_of(task);
  bool has_ended = record.kind() == exits::Record::Kind::ended;
  if (ending() || removal_.has_begun() || !has_ended || task.signalled) return false;
  if (!is_ordered && !shell_.process().plan().policy.is_failure(record)) return false;
  return task.attempt < elastic::Starts(replica_.job().tasks()).most();
}

bool JobRestart::asks_for_node() const {
  return replica_.changes().scope == job::RestartOption::Scope::node && !kept_.asked_alone().empty();
}

bool JobRestart::keeps(JobTask& task) {
  using Scope = job::RestartOption::Scope;
  const Changes& changes = replica_.changes();
  const Id rank = task.rank;
  if (!changes.restarts) return false;
  bool is_ordered = ordered_.contains(rank);
  ordered_.remove(rank);
  if (whole_.is_under_way() && !ending()) {
    whole_.keep(task);
    return true;
  }
  if (asks_for_node() && !ending()) {
    kept_.keep({&task, shell_.tasks().record_of(task), false, is_ordered});
    return true;
  }
  if (!wants(task, is_ordered)) return false;
  if (changes.scope == Scope::node && !shell_.tasks().records().ranks().empty()) return false;
  exits::Record record = is_ordered ? exits::Record::victim(task.status) : shell_.tasks().record_of(task);
  kept_.keep({&task, record, changes.scope == Scope::job, is_ordered});
  if (unsent_.empty()) shell_.process().later(Time{}, [this] { send(); });
  unsent_.push_back(rank);
  return true;
}

void JobRestart::send() {
  std::map<std::pair<bool, bool>, elastic::RestartMessage> messages;
  for (Id rank : std::exchange(unsent_, {})) {
    const JobKeptEnd* kept = kept_.find(rank);
    if (kept == nullptr || kept->state != JobKeptEnd::State::asked) continue;
    Time ran = shell_.process().world().now - kept->task->since;
    messages[{kept->whole, kept->ordered}].ends.push_back(
        {rank, kept->task->attempt, kept->record, seconds_of(ran)});
  }
  for (auto& [how, message] : messages) {
    message.shell = shell_.process().id();
    message.whole = how.first;
    message.ordered = how.second;
    shell_.group().announce(elastic::RestartMessage::kAsked, message.asked());
  }
}

void JobRestart::signalled() {
  using State = JobKeptEnd::State;
  const bool is_node = whole_.is_of_node();
  if (whole_.is_under_way() && !is_node && !ending()) {
    exits::Cause cause{"a signal, while the job was to start again", 1, shell_.process().id()};
    shell_.process().witness().failed(shell_.process().id(), cause, false);
    shell_.ending().end_job(cause, "exec");
    return;
  }
  arrivals_.signalled();
  bool ends_node = false;
  for (JobTask& each : shell_.tasks().list()) {
    if (each.running) each.signalled = true;
    const JobKeptEnd* kept = kept_.find(each.rank);
    // What has had it goes on to a spare with it.
    if (kept != nullptr && (kept->state == State::moving || (is_node && whole_.moves()))) {
      spares_.signalled(each.rank);
      continue;
    }
    bool waits = kept != nullptr && kept->state < State::starting;
    bool starts = kept != nullptr && kept->state == State::starting;
    ends_node = ends_node || (is_node && !starts) || (waits && asks_for_node());
    if (waits && !ends_node) kept_.drop(each.rank);
  }
  if (ends_node) whole_.drop_node();
}

void JobRestart::drop_all() {
  ordered_ = {};
  kept_.drop_all();
  whole_.reset();
}

// ---- in the order of the log -----------------------------------------------------------------

void JobRestart::granted(Id rank, const elastic::RestartDecision& decision) {
  JobKeptEnd* kept = kept_.find(rank);
  if (kept == nullptr) return kept_.record_dropped(rank);  // this shell has given it up meanwhile
  kept->attempt = decision.attempt;
  kept->state = JobKeptEnd::State::waiting;
  auto delay = Time(static_cast<std::int64_t>(decision.delay * 1e6));
  shell_.process().later(delay, [this, rank, attempt = decision.attempt] {
    const JobKeptEnd* waits = kept_.find(rank);
    if (waits != nullptr && waits->state == JobKeptEnd::State::waiting && waits->attempt == attempt)
      spares_.wait_is_over(rank);
  });
  shell_.call(Place::task_exit);
}

void JobRestart::begin_together(const elastic::RestartDecision& decision) {
  kept_.record_all_dropped();
  JobTasks& tasks = shell_.tasks();
  const JobProcess& process = shell_.process();
  bool is_given_up = false;  // by a signal
  for (Id rank : decision.ranks.ids()) is_given_up = is_given_up || (!decision.whole && !kept_.contains(rank));
  if (is_given_up) {
    for (Id rank : tasks.records().ranks().ids()) tasks.record(rank, *tasks.records().of(rank));
    return;
  }
  if (ending() || removal_.has_begun()) return;
  if (finished_) {
    exits::Cause cause{fmt::format("shell {}: its tasks had ended when all were to start again", process.id()), 1,
                       process.id()};
    process.witness().failed(process.id(), cause, true);
    shell_.ending().end_job(cause, "exec");
    return;
  }
  whole_.begin(decision);
  if (!is_starting_) whole_.end_tasks();  // else once those that are being started run
}

void JobRestart::order(const Idset& ranks) {
  std::map<std::string, Idset> refused;
  Idset ended, here;
  for (JobTask& task : shell_.tasks().list()) {
    here.insert(task.rank);
    if (!ranks.contains(task.rank) || ordered_.contains(task.rank)) continue;
    if (kept_.contains(task.rank) || whole_.is_under_way()) {
      refused["it waits for its next start"].insert(task.rank);
    } else if (!task.running) {
      refused[task.ended ? "it has ended" : "it has not been started yet"].insert(task.rank);
    } else if (removal_.has_begun()) {
      refused["its shell is about to leave the job"].insert(task.rank);
    } else {
      ended.insert(task.rank);
      task.signalled = false;
    }
  }
  Idset coming = (ranks & replica_.job().taskmap.ranks_on(shell_.process().id())) - here;  // of a lost shell
  if (!coming.empty()) refused["it has not been started yet"].insert(coming);
  for (const auto& [why, which] : refused) refuse(which, why);
  if (ended.empty()) return;
  ordered_ = ordered_ | ended;
  shell_.tasks().kill(SIGTERM, ended);
  shell_.process().later(kGrace, [this, ended] { shell_.tasks().kill(SIGKILL, ended & ordered_); });
}

void JobRestart::refuse(const Idset& ranks, const std::string& why) {
  shell_.group().announce("shell.restart-refused", dump_json({{"ranks", ranks.str()}, {"why", why}}));
}

// ---- the start, or none ------------------------------------------------------------------------

// As Shell::run_tasks() and stand_by().
bool JobRestart::may_finish() {
  const Changes& changes = replica_.changes();
  const JobProcess& process = shell_.process();
  const job::Job& job = replica_.job();
  const bool waits = whole_.is_under_way();
  if (shell_.tasks().any_runs() && ending()) return false;
  bool is_due = waits ? whole_.is_due() : kept_.is_due();
  bool takes_over = arrivals_.are_due() && !removal_.has_begun();
  if (!ending() && (is_due || (takes_over && !waits))) {
    start_due();
    return false;
  }
  if (shell_.tasks().any_runs() || (!ending() && (!kept_.is_empty() || waits || takes_over))) return false;
  bool is_idle = changes.restarts && job.taskmap.tasks_on(process.id()) == 0;
  bool stands_by = job.is_spare(process.id()) || changes.takes_any || changes.to_spare || is_idle;
  bool has_all = process.leads() && shell_.records().are_complete();
  bool is_over = replica_.are_tasks_over() || has_all || removal_.has_begun() || ending();
  if (stands_by && !is_over) return false;
  finished_ = true;
  return true;
}

std::string JobRestart::open() const {
  if (auto rank = kept_.first()) return fmt::format("the end of task {} is kept back", *rank);
  return whole_.is_under_way() ? "a restart of all tasks" : "";
}

void JobRestart::start_due() {
  shell_.process().hold(kMostHeld, [this] {
    if (ending()) return;
    if (whole_.is_under_way()) return whole_.is_due() ? start_together() : void();
    if (kept_.is_due()) return start_alone();
    if (!arrivals_.are_due() || removal_.has_begun()) return;
    arrivals_.take_over();
    start_soon();
  });
}

void JobRestart::start_alone() {
  for (JobKeptEnd* each : kept_.start_due()) {
    auto why = each->ordered ? Witness::Why::ordered : Witness::Why::automatic;
    starts_.renew(*each->task, each->attempt, why, fmt::format("task {} try {}", each->task->rank, each->attempt));
  }
  start_soon();
}

void JobRestart::start_soon() {
  shell_.process().hold(kMostHeld, [this] {
    if (!ending() && !whole_.is_under_way() && !removal_.has_begun()) start_tasks();
  });
}

void JobRestart::start_together() {
  const std::uint64_t restarts = whole_.renew_tasks();
  shell_.process().hold(kMostHeld, [this, restarts] {
    if (ending() || !whole_.is_still(restarts)) return;  // all tasks of the job may start again by now
    whole_.reset();
    start_tasks();
  });
}

void JobRestart::start_tasks() {
  is_starting_ = true;
  for (JobTask& each : shell_.tasks().list()) {
    if (!each.started && !ending()) shell_.tasks().take_up(each);
    if (shell_.process().is_over()) return;
  }
  are_started();
}

}  // namespace nacre::sim
