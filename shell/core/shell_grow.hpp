// SPDX-License-Identifier: Apache-2.0
//
// Grows of the job, on one of its shells. The leader starts shells on more hosts, one order after another, and
// waits until they belong to the job; then it announces them with what their nodes have (elastic/roster.hpp), so
// all shells count them from the same place in the log on. At that place the leader notes the job's state, and
// sends it to the newcomers. They load their plugins, run shell.init and shell.start among themselves, and report
// that they are ready; from then on they are spares.
//
//   (asked for, of Slurm) -> queued -> started -> of the job -> announced -> ready | failed, lost: taken out again
//
// A pod that comes again while the job runs (boot::Latecomers) is an order of its own: nobody starts it.
#pragma once

#include "boot/make_resources.hpp"
#include "core/shell_group.hpp"
#include "core/shell_restart.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "core/slurm_nodes.hpp"
#include "elastic/recovery.hpp"
#include "elastic/roster.hpp"
#include "event/loop.hpp"
#include "group/group.hpp"
#include "job/job.hpp"
#include "join/shell_process.hpp"
#include "plugin/host.hpp"
#include "plugin/registration.hpp"

namespace nacre::core {

// The option resize, as one shell has it: the job starts again with fewer tasks where a shell with tasks is lost
// and no spare takes these, and with more once others have joined. The leader decides on which shells, and
// announces that (elastic::JobResize): so all shells have the same tasks from one place in the log on. ShellRestart
// ends and starts them; which ranks are where is job::Job's.

class ShellResize {
 public:
  // All shells: what was announced, and what has become of it; none: something else has come before it.
  using WhenDecided =
      std::function<void(const elastic::JobResize& what, const std::optional<elastic::RestartDecision>& decision)>;

  // All have to outlive it. `job`: that of `host`.
  ShellResize(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellRestart& restart)
      : host_(host), job_(job), shells_(shells), restart_(restart) {}

  // Once the options are final. An error: resize is wrong, or does not go with another option.
  Result<void> serve();
  void when_decided(WhenDecided receive) { on_decided_ = std::move(receive); }

  [[nodiscard]] bool is_on() const { return job_.tasks_each > 0; }
  // Leader: the job goes on without this shell, which is lost. ENOSPC: it would have too few nodes.
  Result<void> go_on_without(group::Rank shell);
  // Leader: the job gets more tasks, if there is room for them and nothing else is under way.
  void look_for_more();

 private:
  [[nodiscard]] Result<void> check_options() const;
  [[nodiscard]] value::Idset able() const;
  Result<void> send(const elastic::JobResize& what);
  void announced(std::string_view bytes);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellRestart& restart_;
  WhenDecided on_decided_;
  std::string said_;  // why there are not more tasks
  plugin::Registration announced_;
};

// This shell while it joins a running job, until it is ready. Before its plugins do anything it has to know the
// state that the job had when the shell was announced. What fails until it is ready does not end the job.
class JoiningShell {
 public:
  // All have to outlive it. `job`: that of `host`.
  JoiningShell(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellRestart& restart)
      : host_(host), job_(job), shells_(shells), restart_(restart) {}

  // The shell joins. `before`: all shells that have joined so far, including this one; `state`: see ShellGrow.
  void begin(const elastic::Growth& before, Json state);
  [[nodiscard]] bool is_joining() const { return is_joining_; }

  // In a shell that does not join these do nothing.
  Result<void> take_state();     // once the taskmap is final
  Result<void> take_restarts();  // once the options are
  // Its initrc files have to be those of the leader.
  [[nodiscard]] Result<void> check_initrcs(const std::function<std::string()>& mark) const;
  void ready();
  void failed(const std::string& why);

 private:
  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellRestart& restart_;
  bool is_joining_ = false;
  bool has_failed_ = false;
  value::Idset missing_;  // shells that were to join before it, and have not come
  Json state_;
  std::string initrcs_;  // the leader's
};

class ShellGrow : Noncopyable {
 public:
  using WhenGrown = plugin::Host::WhenGrown;
  using Rank = group::Rank;

  // All have to outlive it. `job`: that of `host`.
  ShellGrow(plugin::Host& host, job::Job& job, join::ShellProcess& process, ShellGroup& shells, ShellShrink& shrink,
            ShellRestart& restart)
      : host_(host),
        job_(job),
        process_(process),
        shells_(shells),
        shrink_(shrink),
        restart_(restart),
        joining_(host, job, shells, restart) {}

  ~ShellGrow() {
    if (process_.later) process_.later->on_failed = nullptr;
    if (process_.latecomers)
      process_.latecomers->serve([](std::uint32_t) { return Error{ECANCELED, "the job is ending"}; });
  }

  // Has to be called before others can take part.
  void serve();
  // Of a pod, in a job that may change its leader, once that is known, and again once this shell leads: pods that
  // come again find it.
  void listen();
  [[nodiscard]] JoiningShell& joining() { return joining_; }  // this shell, where it joins
  // Leader: which initrc files it has read, with which newcomers compare their own.
  void set_initrcs(std::function<std::string()> mark) { initrcs_ = std::move(mark); }

  // This shell has come to lead.
  void lead();

  // See plugin::Host; on the leader.
  void grow(const value::GrowOrder& order, const WhenGrown& news);
  // Leader: the tasks have ended, or the job is to end. Open orders end, and shells that are not ready leave again.
  void stop();
  // Leader: this shell is lost.
  void lost(Rank rank);
  // Leader: how long a lost pod may take to come again and join; none: it does not join.
  [[nodiscard]] std::optional<event::Seconds> time_of_pods() const;
  // Leader: `receive` is called when another shell has joined and is ready for tasks, and all of its order are.
  void when_ready(std::function<void()> receive) { on_ready_ = std::move(receive); }
  void when_grown(std::function<void()> receive) { on_grown_ = std::move(receive); }
  // All shells have ended. Leader: ends the allocations that the job has got beside its first one. A shell in such
  // an allocation that has lost the leader ends the allocation, unless other shells are left there.
  void end_allocations();

 private:
  struct Open {
    value::GrowOrder order;
    WhenGrown news;  // null once the answer has been given
    std::vector<std::string> hosts;
    std::vector<std::string> agent = {};    // the command that starts the shells there; empty: as for the others
    std::optional<std::uint32_t> pod = {};  // the index of a pod that has come by itself
    Rank first = 0;                         // ranks follow in the order of `hosts`
    std::optional<value::Idset> come = {};  // those that are of the job; none: the group still waits for some
    std::map<Rank, boot::NodeOffer> offers = {};
    bool is_sent = false, is_announced = false;  // which of them have come, to all shells
    value::Idset ready = {};
    std::map<Rank, std::string> failures = {};
    bool is_undone = false;  // one has not come, and with --all the others leave again
    std::optional<event::Timer> timer = {};
  };

  [[nodiscard]] Result<void> check_phase() const;
  [[nodiscard]] Result<void> check(const value::GrowOrder& order) const;
  [[nodiscard]] bool needs_manager(const value::GrowOrder& order) const;
  [[nodiscard]] Result<std::vector<std::string>> hosts_of(const value::GrowOrder& order) const;
  [[nodiscard]] Result<void> make_nodes();
  void tell_of_leader(const Json& what) const;
  Result<void> ask_manager(const value::GrowOrder& order, const WhenGrown& news);
  void enqueue(Open order);
  void serve_latecomers();
  Result<std::string> come_again(std::uint32_t index);
  [[nodiscard]] std::string port_of_pods(Rank leader) const;
  [[nodiscard]] Rank last_of_pod(std::uint32_t index) const;
  void invite(std::uint32_t pod, Rank rank, const std::string& lines);
  [[nodiscard]] event::Seconds wait_of(const value::GrowOrder& order, std::size_t shells) const;
  void give_back_unused(const Open& over);
  void end_left_allocation();
  void begin_next();
  Result<void> begin();
  [[nodiscard]] bool is_open(Rank first) const { return open_ && open_->first == first; }
  void note_joined(const Result<value::Grown>& grown);
  void look_for_offers();
  void send_growth();
  void look_if_over();
  void answer_order();
  void end_order(const Result<Json>& answer);
  void give_up(const value::Idset& ranks, const std::string& why);
  void take_out(const value::Idset& shells, std::function<void()> done);
  [[nodiscard]] value::Idset asked() const;
  [[nodiscard]] value::Idset failed() const;
  [[nodiscard]] elastic::Growth growth() const;
  [[nodiscard]] Error error_of_all() const;
  void announced(std::string_view topic, const Json& what);
  void apply_growth(const Json& what);
  void note_ready(const Json& what);
  [[nodiscard]] Json state() const;

  plugin::Host& host_;
  job::Job& job_;
  join::ShellProcess& process_;
  ShellGroup& shells_;
  ShellShrink& shrink_;
  ShellRestart& restart_;
  JoiningShell joining_;
  elastic::Growth growth_;  // so far
  std::function<std::string()> initrcs_;
  std::optional<std::string> resources_;       // leader: R of the job's start, once the job grows
  std::unique_ptr<SlurmNodes> nodes_;          // leader: once some were asked for
  std::map<std::uint64_t, WhenGrown> asking_;  // leader: orders that wait for nodes, by number
  std::uint64_t last_asked_ = 0;
  std::optional<Open> open_;
  std::deque<Open> queue_;
  bool stopped_ = false;
  std::function<void()> on_ready_, on_grown_;
  std::vector<plugin::Registration> leaving_;  // newcomers that are taken out again
  plugin::Registration announced_;
};

// The option on-lost=replace, on one shell. When a shell with tasks is lost the leader chooses a spare, or other
// shells (restart=...,where=any), and announces that the tasks are there now (kTopic): so all shells know it in one
// order with losses. The announcement does not count if its shell was lost, or asked to leave, before it: then the
// leader chooses again. elastic/recovery.hpp decides.
//
// PMI knows no second start of a rank. So where tasks use it, and where restart has scope=job, all tasks of the job
// start again with those that move, if restart allows it (ShellRestart); the same announcement has both. The leader
// asks the shells that stay which of their tasks are connected to PMI.
//
// Where there is no spare the job may go on with fewer tasks instead (ShellResize), all of which start again.
//
// Where lost pods come again, tasks for which there is no spare wait for one.
class ShellReplace {
 public:
  // All have to outlive it. `job`: that of `host`.
  ShellReplace(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellShrink& shrink, ShellTasks& tasks,
               ShellRestart& restart, ShellGrow& grow, ShellResize& resize)
      : host_(host),
        job_(job),
        shells_(shells),
        shrink_(shrink),
        tasks_(tasks),
        restart_(restart),
        grow_(grow),
        resize_(resize) {}

  // Once the options are final. An error: on-lost is wrong.
  Result<void> serve();

  // Tasks of another shell are to be started here.
  [[nodiscard]] bool is_due() const { return !due_.empty() && !shrink_.leaves(); }
  // Makes the tasks that were announced first, and calls shell.take-over. They still have to be started.
  Result<void> take_over();

  // As Host::leave_out().
  plugin::Resizing::Replaced leave_out(const value::Idset& shells);

 private:
  using Rank = value::Idset::Id;
  static constexpr std::string_view kTopic = "shell.replace";

  bool lost(group::Rank shell);
  void decide(group::Rank shell, const value::Idset& connected);
  void give_up(group::Rank shell, const std::string& why);
  Result<void> replace(group::Rank shell, const value::Idset& ranks, bool takes_all);
  bool wait_for_pod(group::Rank shell, const value::Idset& ranks, const std::string& why);
  Result<std::vector<std::uint32_t>> choose(group::Rank shell, const value::Idset& ranks);
  [[nodiscard]] std::vector<elastic::Replacements::Other> others() const;
  [[nodiscard]] std::vector<elastic::Replacements::Spare> spares() const;
  void announced(std::string_view bytes);
  void moved_alone(const elastic::Replacement& what);
  void moved_with_all(const elastic::Replacement& what);
  void note_due(const std::vector<job::Move>& moves);
  void resized(const elastic::JobResize& what, const std::optional<elastic::RestartDecision>& decision);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellShrink& shrink_;
  ShellTasks& tasks_;
  ShellRestart& restart_;
  ShellGrow& grow_;
  ShellResize& resize_;
  elastic::Replacements replacements_;           // the leader's
  std::map<group::Rank, event::Timer> waiting_;  // the leader's: lost shells whose tasks wait for a pod
  std::deque<job::Move> due_;                    // to this shell
  bool takes_any_ = false;                       // where=any
  plugin::Registration announced_;
};

}  // namespace nacre::core
