// SPDX-License-Identifier: Apache-2.0
//
// The option restart, as one shell has it. A task that has ended and is to be started again is kept back: plugins
// and policies do not see its end yet. Its shell announces the end; in the order of the log all shells ask
// elastic::Recovery alike, which grants a restart or has none left: so the limits are the whole job's.
//
//   ended -> asked -+-> granted -> due, once its time is over -> started, with where=spare perhaps elsewhere
//                   `-> refused: its end is one as any other
//
// Where all tasks have to start again together (scope=job, or PMI), the leader answers by an announcement: it alone
// knows which have ended for good. All shells end their tasks, wait for each other, and start them; so it is, too,
// where those of a lost shell take all with them (ShellReplace). With scope=node the shell itself knows that of its
// tasks; once one has asked, the ends of the others are kept back with it.
//
// Once the job ends, or this shell leaves it, nothing starts again; the last end of a task is its record.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "core/kept_end.hpp"
#include "core/restart_orders.hpp"
#include "core/restart_reports.hpp"
#include "core/shell_group.hpp"
#include "core/shell_shrink.hpp"
#include "elastic/recovery.hpp"
#include "elastic/replacement.hpp"
#include "elastic/restart_message.hpp"
#include "elastic/restarts.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "job/job.hpp"
#include "job/restart_option.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

class ShellRestart {
 public:
  // All have to outlive it. `job`: that of `host`.
  ShellRestart(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellShrink& shrink, ShellTasks& tasks,
               const exits::JobEnd& end)
      : host_(host), job_(job), shells_(shells), shrink_(shrink), tasks_(tasks), end_(end) {}

  // Once the options are final. An error: restart is wrong, or not possible.
  Result<void> serve();
  // Leader: all tasks of the job have been started.
  void all_started();
  void finished() { finished_ = true; }  // the tasks of this shell have ended for good
  [[nodiscard]] std::optional<elastic::Restarts>& granted_so_far() { return restarts_; }  // none: the option is off

  // No end of a task is kept back.
  [[nodiscard]] bool is_idle() const { return kept_.empty() && !together_; }
  // There are tasks to be started now.
  [[nodiscard]] bool is_due() const;
  // All tasks of the job, or of this shell, are about to start again.
  [[nodiscard]] bool is_together() const { return together_.has_value(); }
  // Starts them, unless the job ends. Only in a phase: `wait_for_holds` runs the loop until plugins are ready.
  Result<void> start_due(const std::function<void()>& wait_for_holds);
  // Starts the tasks that were not started. If all are to start again by then, they end at once.
  Result<void> start_tasks();

  // ---- tasks of a lost shell that start elsewhere (lost_restart.cpp)
  // Leader: what becomes of its tasks is to be decided, and then it is; others are not answered meanwhile.
  void loss_opens(group::Rank shell) { answers_.losses.insert(shell); }
  void loss_closes(group::Rank shell);
  // Leader: whether all tasks have to start again with them; an error: they cannot. `connected`: to PMI.
  [[nodiscard]] Result<bool> takes_all_with_lost(const value::Idset& connected) const;
  [[nodiscard]] elastic::Replacement::All all_with_lost() const;
  // Every shell, as it is announced: they are there then, and all are about to start again, if that is granted.
  std::optional<elastic::RestartDecision> start_with_lost(const elastic::Replacement& what);

  // ---- tasks that have ended start elsewhere (spare_restart.cpp)
  [[nodiscard]] bool may_take(group::Rank shell) const;  // tasks of a lost shell
  void come(const value::Idset& ranks);                  // to this shell
  // Is called on every shell as it is decided.
  void when_moved(std::function<void(const std::vector<job::Move>&)> take) { moving_.moved = std::move(take); }

 private:
  using Rank = value::Idset::Id;
  static constexpr std::string_view kAsked = "shell.restart-asked";
  static constexpr std::string_view kAnswered = "shell.restart-answered";  // for the whole job, by the leader
  static constexpr std::string_view kToSpare = "shell.restart-to-spare";
  using Kept = KeptEnd;
  using State = KeptEnd::State;
  using Message = elastic::RestartMessage;
  using Decision = elastic::RestartDecision;

  [[nodiscard]] bool is_chosen(const exits::Record&) const, wants(const task::Task&, bool is_ordered) const;
  [[nodiscard]] Result<bool> pmi_takes_all(Rank rank, std::string_view by = "") const;
  [[nodiscard]] Result<bool> takes_all(const task::Task& task) const;
  bool keep(task::Task& task);
  void send(), send(bool whole, bool ordered, const std::vector<Rank>&);
  void announced(const Message&), signalled(int signum, const group::Targets&);
  void granted(Rank, const Decision&), refused(Rank);
  void started(const task::Task&), drop(Rank), drop_all();

  // With where=spare (spare_restart.cpp).
  void wait_is_over(Rank), wait_together_is_over(), ask_for_spares(), ask_for_spare_together();
  void asked_for_spare(std::string_view bytes);
  void placed(Rank, const elastic::SparePlaces&), placed_together(const elastic::SparePlaces&);

  // By nacre restart.
  void serve_orders(), ordered(std::string_view), order_all(), answer_order(), answered_order(const Message&);

  // All tasks of the job, or of this shell, together (whole_restart.cpp).
  void answer(const Message&), answered(const Message&), decide_together(const Message&);
  void refused_together(const Message&);
  [[nodiscard]] std::string why_not_whole() const, why_not_node() const;
  [[nodiscard]] bool waits_together() const { return together_ && !together_->is_node && !together_->is_due; }
  [[nodiscard]] bool asks_for_node() const, asks_for_spares() const, is_given_up(const Decision&) const;
  void begin_together(const Decision&), leave_together(), end_together(), drop_node();
  void keep_together(task::Task&), wait_for_others(), wait_for_delay();
  Result<void> start_together(const std::function<void()>& wait_for_holds);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellShrink& shrink_;
  ShellTasks& tasks_;
  const exits::JobEnd& end_;
  RestartOrders orders_{host_, tasks_};
  RestartReports reports_{host_, shells_};
  job::RestartOption option_;
  std::optional<elastic::Restarts> restarts_;  // none: the option is off
  std::optional<elastic::Recovery> recovery_;  // likewise
  event::Seconds grace_{};                     // between SIGTERM and SIGKILL
  std::map<Rank, event::Seconds> started_;
  std::map<Rank, std::set<int>> signals_;  // that were sent to the task since its start
  bool signals_itself_ = false, is_starting_ = false, finished_ = false;
  std::map<Rank, Kept> kept_;
  std::vector<Rank> unsent_;                     // ends that are to be announced
  std::map<Rank, exits::Record> before_answer_;  // reported as the job ended, before what was asked was answered
  std::optional<RestartTogether> together_;
  MovingTasks moving_;
  std::optional<event::Timer> last_kill_;  // of tasks that were being ended when their restart was cancelled
  RestartAnswers answers_;                 // the leader's
  std::optional<event::Timer> turn_;
  plugin::Registration announced_, others_ended_;
};

}  // namespace nacre::core
