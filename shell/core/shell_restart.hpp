// SPDX-License-Identifier: Apache-2.0
//
// The option restart, as one shell has it. A task that has ended and is to be started again is kept back: plugins
// and policies do not see its end yet. Its shell announces the end; in the order of the log all shells ask
// elastic::Restarts alike, which grants a restart or has none left: so the limits are the whole job's.
//
//   ended -> asked -+-> granted -> due, once its time is over -> started
//                   `-> refused: its end is one as any other
//
// Where all tasks have to start again together (scope=job, or PMI), the leader answers by an announcement: it alone
// knows which have ended for good. All shells end their tasks, wait for each other, and start them.
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
#include "core/restart_message.hpp"
#include "core/restart_orders.hpp"
#include "core/shell_group.hpp"
#include "core/shell_shrink.hpp"
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
  [[nodiscard]] bool is_idle() const { return kept_.empty() && !whole_; }
  // There are tasks to be started now.
  [[nodiscard]] bool is_due() const;
  // Starts them, unless the job ends. Only in a phase: `wait_for_holds` runs the loop until plugins are ready.
  Result<void> start_due(const std::function<void()>& wait_for_holds);

 private:
  using Rank = value::Idset::Id;
  static constexpr std::string_view kAsked = "shell.restart-asked";
  static constexpr std::string_view kAnswered = "shell.restart-answered";  // for the whole job, by the leader

  enum class State : std::uint8_t { asked, waiting, due, starting, together };
  // An end that is kept back.
  struct Kept {
    task::Task* task;  // that has ended
    exits::Record record;
    bool whole = false;    // only all tasks can start again
    bool ordered = false;  // by nacre restart
    State state = State::asked;
    std::uint32_t attempt = 0;   // once it is granted: the next start
    std::uint64_t restarts = 0;  // of the job by then
    std::optional<event::Timer> timer = {};
  };
  using End = RestartEnd;
  using Message = RestartMessage;
  using Decision = RestartDecision;
  // A restart of all tasks that is under way.
  struct Whole {
    std::uint64_t restarts;  // of the job, with this one
    double delay;
    bool waits = false;  // for the other shells
    bool is_due = false;
    std::optional<event::Timer> timer = {};  // SIGKILL; then the delay
  };

  [[nodiscard]] bool is_chosen(const exits::Record& record) const;  // by the option
  [[nodiscard]] bool wants(const task::Task& task) const;
  [[nodiscard]] Result<bool> takes_all(const task::Task& task) const;
  bool keep(task::Task& task);
  void send();
  void send(bool whole, bool ordered, const std::vector<Rank>& ranks);
  void announced(const Message& message);
  [[nodiscard]] bool stands(group::Rank shell, const End& end) const;
  Decision decide(const End& end, bool ordered);
  void report(group::Rank shell, const Decision& decision) const;
  void report_ordered(group::Rank shell, const Decision& decision) const;
  void log_not_started(const value::Idset& ranks, group::Rank shell, const exits::Record& record,
                       std::string_view why) const;
  void granted(Rank rank, const Decision& decision);
  void refused(Rank rank);
  void signalled(int signum, const group::Targets& which);
  Result<void> start_tasks();
  void drop(Rank rank);
  void drop_all();

  // By nacre restart.
  void serve_orders();
  void ordered(std::string_view bytes);
  void order_all();
  void answer_order();
  void answered_order(const Message& message);

  // All tasks together (whole_restart.cpp).
  void answer(const Message& message);
  [[nodiscard]] std::string why_not_whole() const;
  void answered(const Message& message);
  void begin_whole(const Decision& decision);
  void end_for_whole();
  void keep_for_whole(task::Task& task);
  void wait_for_others();
  Result<void> start_whole(const std::function<void()>& wait_for_holds);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellShrink& shrink_;
  ShellTasks& tasks_;
  const exits::JobEnd& end_;
  RestartOrders orders_{host_, tasks_};
  job::RestartOption option_;
  std::optional<elastic::Restarts> restarts_;  // none: the option is off
  event::Seconds grace_{};                     // between SIGTERM and SIGKILL
  std::map<Rank, event::Seconds> started_;
  std::map<Rank, std::set<int>> signals_;  // that were sent to the task since its start
  bool signals_itself_ = false, is_starting_ = false;
  std::map<Rank, Kept> kept_;
  std::vector<Rank> unsent_;                     // ends that are to be announced
  std::map<Rank, exits::Record> before_answer_;  // reported as the job ended, before what was asked was answered
  std::optional<Whole> whole_;
  bool finished_ = false, all_started_ = false;
  bool order_is_answered_ = false;   // leader: its answer has not come back yet
  std::vector<Message> unanswered_;  // leader: until all tasks have been started
  std::optional<event::Timer> turn_;
  plugin::Registration announced_, others_ended_;
};

}  // namespace nacre::core
