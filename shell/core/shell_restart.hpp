// SPDX-License-Identifier: Apache-2.0
//
// The option restart, as one shell has it. A task that has ended and is to be started again is kept back: plugins
// and policies do not see its end yet. Its shell announces the end; in the order of the log all shells ask
// elastic::Recovery alike, which grants a restart or has none left: so the limits are the whole job's.
//
//   ended -> asked -+-> granted -> due, once its time is over -> started, with where=spare perhaps elsewhere
//                   `-> refused: its end is one as any other
//
// Where all tasks have to start again together (scope=job, or PMI), the leader answers (RestartAnswers): see
// whole_restart.cpp, and lost_restart.cpp for those of a lost shell that take all with them (ShellReplace). With
// scope=node the shell itself decides; once one has asked, the ends of its others are kept back with it.
//
// Once the job ends, or this shell leaves it, nothing starts again; the last end of a task is its record.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "core/kept_end.hpp"
#include "core/restart_answers.hpp"
#include "core/restart_orders.hpp"
#include "core/restart_reports.hpp"
#include "core/restart_requests.hpp"
#include "core/restart_rules.hpp"
#include "core/restart_together.hpp"
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
  void finished() { finished_ = true; }                         // the tasks of this shell have ended for good
  [[nodiscard]] RestartAnswers& answers() { return answers_; }  // the leader's
  [[nodiscard]] std::optional<elastic::Restarts>& granted_so_far() { return restarts_; }  // none: the option is off

  [[nodiscard]] bool is_idle() const { return kept_.empty() && !together_; }  // no end of a task is kept back
  [[nodiscard]] bool is_due() const;                                          // there are tasks to be started now
  // All tasks of the job, or of this shell, are about to start again.
  [[nodiscard]] bool is_together() const { return together_.has_value(); }
  // Starts them, unless the job ends. Only in a phase: `wait_for_holds` runs the loop until plugins are ready.
  Result<void> start_due(const std::function<void()>& wait_for_holds);
  // Starts the tasks that were not started. If all are to start again by then, they end at once.
  Result<void> start_tasks();

  // ---- tasks of a lost shell that start elsewhere (lost_restart.cpp)
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
  // For the failures that others only follow from, where all start again together.
  static constexpr event::Seconds kSettle{0.15};
  static constexpr std::string_view kToSpare = "shell.restart-to-spare";
  using State = KeptEnd::State;
  using Message = elastic::RestartMessage;
  using Decision = elastic::RestartDecision;

  bool keep(task::Task& task);
  void keep_asking(task::Task& task, const exits::Record& record, bool whole, bool is_ordered);
  void signalled(int signum, const group::Targets& tasks);
  void announced(const Message& message);
  void granted(Rank rank, const Decision& decision);
  void refused(Rank rank);
  void started(const task::Task& task);
  void drop(Rank rank);
  void drop_all();

  // With where=spare (spare_restart.cpp).
  [[nodiscard]] bool asks_for_spares() const;
  void wait_is_over(Rank rank);
  void wait_together_is_over();
  void ask_for_spares();
  void ask_for_spare_together();
  void asked_for_spare(std::string_view bytes);
  void placed(Rank rank, const elastic::SparePlaces& places);
  void placed_together(const elastic::SparePlaces& places);

  // By nacre restart.
  void serve_orders();
  void ordered(std::string_view bytes);
  void answered_order(const Message& message);

  // All tasks of the job, or of this shell, together (whole_restart.cpp).
  [[nodiscard]] bool waits_together() const {
    return together_ && !together_->plan().is_node && !together_->is_due();
  }
  [[nodiscard]] bool asks_for_node() const;
  void decide_together(const Message& message);
  void begin_together(const Decision& decision);
  void raise_finished(const Decision& decision);
  void keep_together(task::Task& task);
  void drop_node();
  Result<void> start_together(const std::function<void()>& wait_for_holds);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellShrink& shrink_;
  ShellTasks& tasks_;
  const exits::JobEnd& end_;
  job::RestartOption option_;
  RestartRules rules_{host_, tasks_, option_};
  RestartOrders orders_{host_, tasks_};
  RestartAnswers answers_{host_, shells_, tasks_, rules_, orders_, end_};
  RestartReports reports_{host_, shells_};
  RestartRequests requests_{host_};
  std::optional<elastic::Restarts> restarts_;  // none: the option is off
  std::optional<elastic::Recovery> recovery_;  // likewise
  event::Seconds grace_{};                     // between SIGTERM and SIGKILL
  bool signals_itself_ = false, is_starting_ = false, finished_ = false;
  std::map<Rank, KeptEnd> kept_;
  std::map<Rank, exits::Record> before_answer_;  // reported as the job ended, before what was asked was answered
  std::optional<RestartTogether> together_;
  MovingTasks moving_;
  std::optional<event::Timer> last_kill_;  // of tasks that were being ended when their restart was cancelled
  std::optional<event::Timer> turn_;
  plugin::Registration announced_;
};

}  // namespace nacre::core
