// SPDX-License-Identifier: Apache-2.0
//
// The tasks of one shell: their start, their end, and the signals that are passed on to them.
//
// A started task runs until it ends by itself, or until end() ends it: SIGTERM, a grace, SIGKILL. Each end becomes
// an exits::Record, which is given to the group.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "core/shutdown.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "exits/record.hpp"
#include "group/group.hpp"
#include "plugin/host.hpp"
#include "task/spawn.hpp"
#include "task/task.hpp"

namespace nacre::core {

// Which tasks of a shell start next. Without the option at-most: all that were not started. With at-most=N the
// shell has N slots, and a task needs one from its start until it has ended for good, so that one that starts again
// has its own. The tasks start in the order of the list; no call takes longer where there are more of them.
class TaskWindow {
 public:
  using Tasks = std::span<const std::unique_ptr<task::Task>>;
  using Rank = value::Idset::Id;

  void limit(std::uint32_t slots);  // at least 1
  [[nodiscard]] bool is_limited() const { return slots_.has_value(); }

  // The tasks that start now, which have their slots: neighbours in `tasks`, at most `most`. None if there are no
  // more, or no slots for them.
  Tasks next(Tasks tasks, std::size_t most);
  // Whether next() would return some.
  [[nodiscard]] bool has_next(Tasks tasks);
  // How many may start before the loop has to have a turn.
  [[nodiscard]] std::size_t most_at_once() const { return slots_.value_or(SIZE_MAX); }

  // Another task is at this place now.
  void look_again_from(std::size_t place) { first_ = std::min(first_, place); }
  // The task has ended for good, or is on another shell: its slot is free.
  void give_back(Rank rank);
  void leave_out(Rank rank) { left_out_.insert(rank); }  // it never starts
  void close() { is_closed_ = true; }                    // none starts any more
  // It was not started, and has no slot.
  [[nodiscard]] bool waits(const task::Task& task) const {
    return is_to_start(task) && !taken_.contains(static_cast<Rank>(task.rank()));
  }

 private:
  [[nodiscard]] bool is_to_start(const task::Task& task) const;
  void skip(Tasks tasks);
  bool take_slot(task::Task& task);

  std::optional<std::uint32_t> slots_;
  value::Idset free_;
  std::map<Rank, std::uint32_t> taken_;
  value::Idset left_out_;
  std::size_t first_ = 0;  // no task before this place waits to be started
  bool is_closed_ = false;
};

// A forked child has no log of its own: it leaves its parent one line that says why it failed.
class ChildsLine : Noncopyable {
 public:
  ChildsLine()
      : page_(::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        shared_(page_ != MAP_FAILED ? new (page_) Page : &own_) {}
  ~ChildsLine() {
    if (shared_ != &own_) ::munmap(page_, sizeof(Page));
  }

  // In the child: it has failed. Only the first line is kept.
  void write(std::string_view text) {
    if (!std::exchange(failed_, true)) text.copy(shared_->line, kSize - 1);
  }
  [[nodiscard]] bool failed() const { return failed_; }  // in the child
  // In the parent; empty if the child has not failed, or if there was no memory for the page.
  [[nodiscard]] std::string text() const { return shared_->line; }
  // In the child: set around code that may end it. In the parent: whether that code has ended it.
  void set_busy(bool busy) { shared_->busy = busy; }
  [[nodiscard]] bool was_busy() const { return shared_->busy; }

 private:
  static constexpr std::size_t kSize = 4000;  // bytes with the NUL; a longer line is cut
  struct Page {
    bool busy = false;
    char line[kSize] = "";
  };
  Page own_;  // used if there is no memory to share: the child's line is then lost
  void* page_;
  Page* shared_;
  bool failed_ = false;
};

class ShellTasks : Noncopyable {
 public:
  using Batch = std::span<const std::unique_ptr<task::Task>>;

  // Both must outlive it. There may be no `group` until a task is started.
  ShellTasks(plugin::Host& host, group::Group* group);

  // Starts to pass on signals that come to this process for its tasks. `grace`: between SIGTERM and SIGKILL.
  Result<void> watch_signals(event::Seconds grace);
  // Makes those that the job's taskmap has on this shell.
  Result<void> make();
  // Makes tasks that have been on another shell, behind the existing ones. `restarts`: NACRE_JOB_RESTARTS.
  Result<void> make(const value::Idset& ranks, std::uint32_t attempt, std::uint64_t restarts);
  // Raises the limit so that all tasks can be started. Costs a system call if it has been done.
  Result<void> raise_descriptor_limit();
  // Starts the tasks that were not started, at most as many as may run at the same time (at-most), unless the job
  // is being ended meanwhile. After an error those that were started run on.
  Result<void> start();
  [[nodiscard]] bool may_start_next() { return window_.is_limited() && has_begun_ && window_.has_next(tasks_); }
  // A task of this rank is on another shell now.
  void has_left(value::Idset::Id rank) { window_.give_back(rank); }

  // Where tasks may be started again (ShellRestart). What is called when, ...
  struct Restarting {
    std::function<void(const task::Task&)> started;
    std::function<bool(task::Task&)> keeps;  // it has ended, and nobody knows it yet: whether that stays so
    std::function<void(int signum, const group::Targets& which)> signalled;
    std::function<void()> end;  // by end(): nothing starts again here
  };
  void set_restarting(Restarting restarting) { restarting_ = std::move(restarting); }
  // ... and what is done with an end that was kept: it is one as any other, ...
  void end_for_good(task::Task& task);
  // ... or only plugins get to know it.
  void call_exit(task::Task& task) { raise_if_failed(call_for(task, "task.exit")); }
  // Puts a task that is to be started in the place of all()[place]; the former one stays valid.
  void renew(std::size_t place, std::uint32_t attempt, std::uint64_t restarts);
  // Takes those tasks out of all() that have ended and are on other shells by the job's taskmap; they stay valid.
  // The others get other places, so they have to be renewed.
  void remove_moved();
  // All tasks are to start again with these ranks, in the order of all(). Until renumber() a recorded end counts
  // for the task that takes the place of the ended one, if any does.
  void expect_ranks(const value::Idset& ranks);
  [[nodiscard]] bool expects_ranks() const { return renamed_.has_value(); }
  // Tasks with these ranks, which are to be started, take the places of all existing ones. These have ended, and
  // stay valid.
  void renumber(const value::Idset& ranks, std::uint32_t attempt, std::uint64_t restarts);
  // A restart, which is called off now, has ended the task: that is no failure of its own.
  void note_victim(value::Idset::Id rank) { victims_.insert(rank); }
  // The end of a task that does not start again. It counts as that of the start that the job waits for.
  void record_end(value::Idset::Id rank, const exits::Record& record);
  // It starts again, though its end has counted already.
  void forget_end(value::Idset::Id rank) { outcomes_.forget(value::Idset::range(rank, rank)); }
  [[nodiscard]] exits::Record record_of(const task::Task& task) const;
  // Calls a topic with the task as the current one.
  Result<void> call_for(task::Task& task, std::string_view topic);

  void kill(int signum, const group::Targets& which = std::nullopt);  // none: all
  // If this signal ends programs, tasks that still wait by at-most, and would have got it, never start.
  void leave_out(int signum, const group::Targets& which);
  // What end() ends, and why.
  struct Ending {
    bool others = false;                       // processes of plugins are ended too
    bool over_time = false;                    // because a time limit is over
    bool leaves = false;                       // because this shell leaves the job, as somebody asked for
    int signum = SIGTERM;                      // the first signal
    std::optional<event::Seconds> grace = {};  // until SIGKILL; none: as watch_signals() was given
  };
  // The tasks that run now end as victims, or as over their time limit. Host::kill_tasks() is called with the
  // signal, and after the grace with SIGKILL; only once, and only if there is something to end. False: there was
  // nothing.
  bool end(Ending what);

  [[nodiscard]] Unkillable& unkillable() { return unkillable_; }
  [[nodiscard]] Batch all() const { return tasks_; }
  [[nodiscard]] task::Task* current() const { return current_; }
  [[nodiscard]] std::size_t running() const { return running_; }
  [[nodiscard]] const exits::Outcomes& outcomes() const { return outcomes_; }  // of those that have ended so far
  // In a forked child that runs task.exec: the failure's line has to be written there. Else null.
  [[nodiscard]] ChildsLine* childs_line() const { return childs_line_; }

 private:
  [[nodiscard]] bool plugins_look_on() const;
  Result<void> start_all(bool looks_on);
  Result<void> begin(task::Task& task, bool looks_on);
  Result<void> go_on_with_starts(std::size_t most);
  void take_up_started();
  void note_times(const task::Task& task, const task::SpawnPool::Over& start);
  Result<void> follow_starts();
  void settle();
  Result<void> prepare_command(task::Task& task);
  Result<void> open_channels(task::Task& task);
  task::SpawnPool::Over spawn_hooked(task::Task& task);
  task::SpawnPool::Outcome fork_hooked(task::Task& task);
  task::SpawnPool::Outcome ended_in_hook(pid_t pid);
  void take_up(task::Task& task, task::Spawned spawned);
  Result<void> fail_to_start(task::Task& task, const task::SpawnError& failure);
  void go_on_without(task::Task& task, const exits::Record& record, const std::string& why);
  Result<void> call_fork(task::Task& task);
  void raise_if_failed(const Result<void>& called);
  void on_exit(task::Task& task, const event::ChildExit& end);
  void give_up(task::Task& task);
  Result<void> read_at_most();
  Result<void> leave_out_ended();
  [[nodiscard]] std::unique_ptr<task::Task> new_task(std::uint32_t rank, std::uint32_t local_id,
                                                     std::uint32_t attempt, std::uint64_t restarts) const;
  [[nodiscard]] value::Idset number_of(value::Idset::Id rank, std::uint32_t attempt) const;
  [[nodiscard]] std::string on_host() const;

  plugin::Host& host_;
  group::Group* group_;
  std::vector<event::SignalWatcher> signals_;
  std::optional<event::Timer> stop_timer_;
  std::optional<Shutdown> shutdown_;
  Unkillable unkillable_{host_};
  task::SpawnPool spawn_pool_;
  std::vector<std::unique_ptr<task::Task>> tasks_;
  std::vector<std::unique_ptr<task::Task>> earlier_;  // others have taken their places
  TaskWindow window_;
  bool has_begun_ = false;  // start() was called
  // Those whose starts are under way, by their commands; what has become of the starts is followed in start().
  std::map<const task::Command*, task::Task*> under_way_;
  std::optional<event::Children::StrangersKept> strangers_kept_;
  std::deque<task::SpawnPool::Over> over_;
  std::vector<task::Task*> started_;
  std::vector<std::pair<task::Task*, task::SpawnError>> failed_;
  Restarting restarting_;
  bool own_group_ = true, may_start_again_ = false;  // by the options
  task::Task* current_ = nullptr;
  ChildsLine* childs_line_ = nullptr;
  std::size_t running_ = 0;
  std::optional<std::map<value::Idset::Id, std::optional<value::Idset::Id>>> renamed_;  // see expect_ranks()
  value::Idset unforked_;  // tasks that run, for which task.fork was not called yet
  exits::Outcomes outcomes_;
  std::set<std::string> start_failures_;        // those that were logged, of tasks without which the job goes on
  value::Idset victims_;                        // tasks that ran when this shell began to end them
  value::Idset gone_;                           // of these: tasks that were ended as this shell leaves the job
  value::Idset over_time_;                      // of these: tasks that were ended because a time limit was over
  std::optional<rlimit> own_descriptor_limit_;  // the limit before it was raised
};

}  // namespace nacre::core
