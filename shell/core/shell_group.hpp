// SPDX-License-Identifier: Apache-2.0
//
// The job's shells as one Shell sees them: which are there, what becomes of the tasks of lost ones, and when the
// tasks of all have ended.
#pragma once

#include "elastic/recovery.hpp"
#include "elastic/roster.hpp"
#include "exits/record.hpp"
#include "group/group.hpp"
#include "job/job.hpp"
#include "join/shell_process.hpp"
#include "plugin/events.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

// Tells plugins, and the job's eventlog, how the job's shells and tasks change. Each function calls the topics of
// nacre-shell-plugins(7) that its comment names; the Job of `host` has the change already.
class ChangeNotices {
 public:
  // Both have to outlive it.
  ChangeNotices(plugin::Host& host, const elastic::Roster& roster) : host_(host), roster_(roster) {}

  // `receive` is called with each change of shells and tasks, before plugins get to know it by the topic `name`.
  void when_changed(std::function<Result<void>(const std::string& name, const Json& what)> receive) {
    on_change_ = std::move(receive);
  }

  void lost(group::Rank shell, bool ends);                 // shell.lost; `ends`: the job ends with it
  void not_replaced(group::Rank shell);                    // shell.not-replaced, which is no change
  void leaving(const value::Idset& shells, double grace);  // job.shrinking, which is no change
  void left(group::Rank shell) { change(plugin::ShellLeft(shell, host_of(shell))); }      // shell.left
  void joined(group::Rank shell) { change(plugin::ShellJoined(shell, host_of(shell))); }  // shell.joined
  void restarted(const Json& what) { change("job.tasks-restart", what); }                 // job.tasks-restart
  void ended(const value::Idset& tasks, const exits::Record&);  // job.tasks-exited, which is no change
  // job.tasks-moved for each, and shell.resource-update. `with_all`: all tasks start again with them; `left`: the
  // shell that is lost, "" if none is.
  void moved(std::span<const job::Move> moves, bool with_all, const std::string& left = "");
  // job.resized, and shell.resource-update; `before`: how many tasks and nodes there were.
  struct Size {
    std::uint64_t tasks = 0;
    std::uint32_t nodes = 0;
  };
  void resized(const elastic::JobResize& what, Size before);
  // shell.resource-update: idsets of the shells that the job has got, and of those that it has no more.
  void resources(const std::string& added, const std::string& left);

 private:
  void change(const std::string& name, const Json& what);
  void notify(const std::string& topic, const Json& what);
  void note(const std::string& name, const Json& what);
  void make(plugin::Call& call);
  template <typename Event>
  void change(const Event& event) {
    note(event.kTopic, event.members());
    notify(event);
  }
  template <typename Event>
  void notify(const Event& event) {
    plugin::Call call(event.kTopic, event);
    make(call);
  }
  [[nodiscard]] const std::string& host_of(group::Rank shell) const;

  plugin::Host& host_;
  const elastic::Roster& roster_;
  std::function<Result<void>(const std::string& name, const Json& what)> on_change_;
};

// How the tasks of all shells of a job have ended so far. Only the leader has this for the tasks of others.
class AllTasks {
 public:
  // Both have to outlive it.
  AllTasks(plugin::Host& host, ChangeNotices& notices) : host_(host), notices_(notices) {}

  // Calls `receive` once, with the task that is the first of all shells known to have ended by itself.
  void when_first_ended(std::function<void(const exits::TaskEnd&)> receive) {
    on_first_ended_ = std::move(receive);
  }
  // From now on only this start of these tasks counts.
  void expect(const value::Idset& ranks, elastic::Starts::Attempt attempt) { expected_.expect(ranks, attempt); }

  // What a shell has reported; ends of starts that do not count are dropped.
  void reported(const group::Ended& ended);
  // `record` is the record of those of `ranks` that have none yet.
  void ended(const value::Idset& ranks, const exits::Record& record);

  [[nodiscard]] const exits::Outcomes& outcomes() const { return outcomes_; }
  // The outcomes at the end of the job, when a task without a record was never started.
  const exits::Outcomes& final_outcomes();
  [[nodiscard]] value::Idset unfinished_on(group::Rank shell) const;
  [[nodiscard]] std::size_t left() const;  // the number of those that have not ended

 private:
  plugin::Host& host_;
  ChangeNotices& notices_;
  elastic::ExpectedStarts expected_;
  exits::Outcomes outcomes_;
  std::function<void(const exits::TaskEnd&)> on_first_ended_;  // until it is called
};

// The barriers of a job's shells, for one of them. While the shell waits its loop runs: signals, timers and losses
// are handled. Only Shell::run, and what it calls, may wait.
class Barriers {
 public:
  // Both have to outlive it. `process` has a group when a barrier is entered.
  Barriers(plugin::Host& host, join::ShellProcess& process) : host_(host), process_(process) {}

  // Runs the loop until done() is true, or the job is being ended.
  void wait(const std::function<bool()>& done);
  // As wait(), until all shells have entered this barrier: if the job is being ended some may never enter it.
  void pass(const std::string& name);
  // As pass(), and returns what all shells have given; none if the job is being ended.
  std::optional<plugin::Gathered> gather(const std::string& name, std::string mine);
  // Barriers that all shells enter, however their job ends. They return the sum, or the largest, of what the shells
  // give; none: this shell is cut off.
  std::optional<std::int64_t> sum_last(const std::string& name, std::int64_t mine);
  std::optional<std::int64_t> max_last(const std::string& name, std::int64_t mine);

  [[nodiscard]] bool has_entered(const std::string& name) const { return passed_.contains(name); }
  [[nodiscard]] bool has_passed(const std::string& name) const;

 private:
  using Count = void (group::Group::*)(std::string_view barrier, std::int64_t mine, group::Group::WhenCounted done);
  std::optional<std::int64_t> pass_last(const std::string& name, Count count, std::int64_t mine);
  void begin(const std::string& name);
  void note_passed(const std::string& name, const Result<void>& passed);

  plugin::Host& host_;
  join::ShellProcess& process_;
  std::map<std::string, bool> passed_;  // whether a barrier that was entered is over
};

class ShellGroup {
 public:
  // Both must outlive it. `process` has a group when serve() is called.
  ShellGroup(plugin::Host& host, join::ShellProcess& process) : host_(host), process_(process) {}

  // Starts to handle what comes from the group and from the launcher. on_lost of `callbacks` is called before a
  // loss is handled here; on_tasks is set here.
  void serve(group::Group::Callbacks callbacks);
  // For a shell that joins a running job: it handles nothing before this call, as its plugins are not ready.
  void begin();

  // Whether there are other shells, or may be some later (nacre grow).
  [[nodiscard]] bool may_have_others() const { return has_others() || process_.group->bulk() != nullptr; }
  [[nodiscard]] bool has_others() const { return host_.job().shells() > 1 && !host_.standalone(); }
  [[nodiscard]] bool leads() const { return host_.job().leads() || !has_others(); }
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
  // These have been asked whether they may leave: leaving() or staying() then decides whether a shell that is lost
  // meanwhile has left, or is a loss.
  void asked_to_leave(const value::Idset& shells) { asked_.insert(shells); }
  [[nodiscard]] const value::Idset& asked_to_leave() const { return asked_; }
  void staying(const value::Idset& shells);  // those that were asked are not to leave after all
  // Leader: `receive` is called for a shell that is lost while it leaves, or is asked to, which is no loss.
  void when_lost_leaving(std::function<void(group::Rank)> receive) { on_lost_leaving_ = std::move(receive); }

  // ---- grows
  // These shells have joined the job, and get ready; those of `missing` have not come.
  void grown(const value::Idset& come, const value::Idset& missing);
  void ready(group::Rank rank) { roster_.note_ready(rank); }
  // What a shell that joins has to be told of this object.
  [[nodiscard]] Json state() const;
  Result<void> take_state(const JsonAt& at);

  // ---- lost shells whose tasks are started again
  // Leader: `receive` is called for a lost shell that had tasks; false: nothing is done about the shell, which is
  // given up, as by give_up().
  void when_lost_with_tasks(std::function<bool(group::Rank)> receive) { on_lost_with_tasks_ = std::move(receive); }
  // Leader: from now on it is decided what becomes of the tasks of lost shells. Shells that were lost before, when
  // no task could start again yet, come first.
  void decide_losses();
  // This shell has come to lead: what only the former leader knew is found again, or counts as lost.
  void take_over();
  [[nodiscard]] std::optional<group::Rank> former_leader() const { return former_leader_; }
  void note_leader(group::Rank before) { former_leader_ = before; }
  // Leader: the tasks of this lost shell that have no record are lost, with all that follows for the job. `why`:
  // they could not be started again; "": nobody wanted that.
  void give_up(group::Rank rank, const std::string& why);
  // The tasks of a lost shell are on others now; the job of `host` has that already. `spares`: the spares before
  // the move. `with_all`: what the log's line says if all tasks start again with them.
  void moved(std::span<const job::Move> moves, const value::Idset& spares, const std::string& with_all = "");
  // All tasks start again, and are others now; `host`'s job has that already. `when`: what the log's line says of
  // it.
  void resized(const elastic::JobResize& what, ChangeNotices::Size before, const std::string& when);

  // Reports to plugins the shells that were lost, and on a shell that joins also those that have left, before
  // plugins could handle that. From now on each is reported at once.
  void report_losses();
  // The leader's own tasks may be the first to end.
  void wait_for_all_tasks();
  // For a shell whose tasks have ended, and that may get others: waits for the tasks of all shells, unless
  // `leaves`.
  void stand_by(const std::function<bool()>& leaves);

 private:
  static auto state_beside_roster();
  void launcher_signal(int signum);
  [[nodiscard]] plugin::RaisedException launchers_end() const;
  void tell_over();
  void note_over(std::string_view bytes);
  void end_others_wait();
  void on_lost(group::Rank rank);
  void lose(group::Rank rank);
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
  value::Idset asked_;       // see asked_to_leave()
  value::Idset lost_asked_;  // those of asked_ that are lost
  plugin::Registration tasks_over_;
  bool tasks_are_over_ = false;   // the leader has announced it
  exits::Outcomes leaders_ends_;  // of its own tasks, which came with that
  bool reports_losses_ = false;   // true once plugins have run shell.post-init
  std::function<bool(group::Rank)> on_lost_with_tasks_;
  bool decides_losses_ = false;
  value::Idset undecided_;   // until then: lost shells of a job in which tasks may start again
  value::Idset given_up_;    // lost shells whose tasks start nowhere else, as the leader has announced
  value::Idset moved_from_;  // lost shells whose tasks start elsewhere, as the leader has announced
  std::optional<group::Rank> former_leader_;
  bool is_past_tasks_ = false;  // wait_for_all_tasks() was called
};

}  // namespace nacre::core
