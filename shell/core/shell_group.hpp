// SPDX-License-Identifier: Apache-2.0
//
// The job's shells as one Shell sees them: which are there, what becomes of the tasks of lost ones, and when the
// tasks of all have ended.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/all_tasks.hpp"
#include "core/barriers.hpp"
#include "core/change_notices.hpp"
#include "elastic/roster.hpp"
#include "join/shell_process.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

class ShellGroup {
 public:
  // Both must outlive it. `process` has a group when serve() is called.
  ShellGroup(plugin::Host& host, join::ShellProcess& process) : host_(host), process_(process) {}

  // Starts to handle what comes from the group and from the launcher. on_lost of `callbacks` is called before
  // what is done here; on_tasks is set here.
  void serve(group::Group::Callbacks callbacks);
  // Of a shell that joins a job that runs: it handles nothing before this, as its plugins are not ready.
  void begin();

  // Whether there are other shells, or may be some later (nacre grow).
  [[nodiscard]] bool may_have_others() const { return has_others() || process_.group->bulk() != nullptr; }
  [[nodiscard]] bool has_others() const { return host_.job().shells() > 1 && !host_.standalone(); }
  [[nodiscard]] bool leads() const { return host_.job().shell_rank == 0 || !has_others(); }
  [[nodiscard]] const elastic::Roster& roster() const { return roster_; }
  [[nodiscard]] Barriers& barriers() { return barriers_; }
  [[nodiscard]] const Barriers& barriers() const { return barriers_; }
  [[nodiscard]] ChangeNotices& notices() { return notices_; }
  [[nodiscard]] AllTasks& all_tasks() { return all_tasks_; }
  [[nodiscard]] const AllTasks& all_tasks() const { return all_tasks_; }

  // Sends the tasks of all shells, which run by now, the signals that the launcher sent before.
  void send_kept_signals();

  // ---- shrinks
  // These shells are about to leave; their tasks have `grace` seconds from the first signal on.
  void leaving(const value::Idset& shells, double grace);
  // They have left. Their tasks that have no record yet count as ended by the shrink.
  void left(const value::Shrunk& shrunk);
  // These have been asked whether they may leave: from now on, until leaving() or staying(), what becomes of them
  // is no loss.
  void asked_to_leave(const value::Idset& shells) { asked_.insert(shells); }
  void staying(const value::Idset& shells) { asked_ = asked_ - shells; }  // they are not to leave after all
  // Leader: this one was lost while it was asked, and is a loss after all.
  void report_loss(group::Rank rank);
  // Leader: `receive` is called for a shell that is lost while it leaves, or is asked to, which is no loss.
  void when_lost_leaving(std::function<void(group::Rank)> receive) { on_lost_leaving_ = std::move(receive); }

  // ---- grows
  // These shells have joined the job, and get ready; those of `missing` have not come.
  void grown(const value::Idset& come, const value::Idset& missing);
  void ready(group::Rank rank) { roster_.note_ready(rank); }
  // What a shell that joins has to know of this.
  [[nodiscard]] Json state() const;
  Result<void> take_state(const JsonAt& at);

  // ---- lost shells whose tasks are started again
  // Leader: `receive` is called for a lost shell that had tasks; false: nothing is done about it, and this goes on
  // as with give_up().
  void when_lost_with_tasks(std::function<bool(group::Rank)> receive) { on_lost_with_tasks_ = std::move(receive); }
  // Leader: what becomes of the tasks of shells that are lost is decided from now on. Those that were lost before,
  // when no task could start again yet, come first.
  void decide_losses();
  // Leader: the tasks of this lost shell that have no record are lost, and what that means for the job follows.
  // `why`: they could not be started again; "": nobody wanted that.
  void give_up(group::Rank rank, const std::string& why);
  // The tasks of a lost shell are on others now; `host`'s job has that already. `spares`: those before it.
  // `with_all`: all tasks start again with them; what the line says of it.
  void moved(std::span<const job::Move> moves, const value::Idset& spares, const std::string& with_all = "");

  // Reports to plugins the shells that were lost before plugins could handle that. From now on each is reported at
  // once.
  void report_losses();
  // The leader's own tasks may be the first to end.
  void wait_for_all_tasks();
  // Of a shell whose tasks have ended, and that may get others: waits for those of all shells, unless `leaves`.
  void stand_by(const std::function<bool()>& leaves);

 private:
  void launcher_signal(int signum);
  [[nodiscard]] plugin::RaisedException launchers_end() const;
  void on_lost(group::Rank rank);
  void decide_loss(group::Rank rank);
  void note_left(const value::Idset& shells);
  [[nodiscard]] std::string silence_text(group::Rank rank) const;

  plugin::Host& host_;
  join::ShellProcess& process_;
  Barriers barriers_{host_, process_};
  elastic::Roster roster_;
  ChangeNotices notices_{host_, roster_};
  AllTasks all_tasks_{host_, notices_};
  std::optional<group::Group::Callbacks> callbacks_;  // until begin()
  std::function<void(group::Rank)> on_lost_leaving_;
  value::Idset asked_;  // see asked_to_leave()
  plugin::Registration tasks_over_;
  bool tasks_are_over_ = false;  // the leader has announced it
  bool reports_losses_ = false;  // true once plugins have run shell.post-init
  std::function<bool(group::Rank)> on_lost_with_tasks_;
  bool decides_losses_ = false;
  value::Idset undecided_;  // until then: lost shells of a job in which tasks may start again
};

}  // namespace nacre::core
