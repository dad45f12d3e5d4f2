// SPDX-License-Identifier: Apache-2.0
//
// The processes that clients of PMI spawn: each call makes a process group with its own server, on this node, or on
// nodes of the job that have room (SpawnRounds).
//
// They run in the job's environment and directory, without stdin. Their output comes out as that of the task that
// requested them, directly or by a chain of spawns. They get each signal that the tasks get, and the job waits for
// them. Their ends count like those of tasks, but not for the job's exit code, which is that of the tasks.
#pragma once

#include "plugin/host.hpp"
#include "plugin/stack.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/options.hpp"
#include "plugins/pmi/spawn_order.hpp"
#include "plugins/pmi/start.hpp"
#include "pmi/spawn.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {

// Processes that a task has asked for, but that are no tasks: they have the job's environment, a task's limits, and
// the places of its output.
class SpawnedProcesses {
 public:
  using Index = std::uint32_t;  // counted from 0, in the order of their start
  struct Callbacks {
    std::function<void(Index)> on_exit;
    std::function<void()> on_none_runs;  // may destroy this object
  };

  // `task`: the rank of the task that their output is shown as; `setup`: a task's, for a shell that has none.
  SpawnedProcesses(plugin::Host& host, std::uint32_t task, task::ChildSetup setup, Callbacks callbacks)
      : host_(host), task_(task), setup_(std::move(setup)), callbacks_(std::move(callbacks)) {}

  // `complete` is given each command before it is started.
  Result<void> start(const pmi::SpawnProgram& program, const std::function<void(task::Command&)>& complete);

  [[nodiscard]] Index running() const { return running_; }
  [[nodiscard]] Index size() const { return static_cast<Index>(processes_.size()); }
  [[nodiscard]] bool runs(Index index) const { return index < size() && !processes_[index]->exited(); }
  [[nodiscard]] std::vector<SpawnedProcess> that_run(const std::vector<std::uint32_t>& ranks) const;  // by index
  [[nodiscard]] const value::WaitStatus& status(Index index) const { return processes_[index]->status(); }
  [[nodiscard]] pid_t pid(Index index) const { return processes_[index]->pid(); }
  Result<void> kill(Index index, int signum);  // nothing, if it does not run

 private:
  Result<std::pair<UniqueFd, UniqueFd>> open_output();

  plugin::Host& host_;
  std::uint32_t task_;
  task::ChildSetup setup_;
  Callbacks callbacks_;
  std::vector<std::unique_ptr<task::Subprocess>> processes_;
  Index running_ = 0;
};

// Spawns that a client of PMIx requests. The plugin pmix serves the processes and knows what follows from how they
// end; here they are placed and started, as those of PMI-1 and PMI-2. The two speak by topics:
//
//   pmi.spawn          pmix requests a spawn
//   pmi.spawn-begins   on each shell that performs it, before the shell's processes are started: it is to know the
//                      new namespace, and gives them their environments
//   pmi.spawn-started  those of this shell run
//   pmi.spawn-exited   one of them has ended
//   pmi.spawns-over    the tasks of this shell have ended, and so has all that was spawned on it
//   pmi.spawn-settled  it is known whether all have started, and that of the shell that has asked answers
struct PmixRequest {
  std::uint64_t number = 0;                         // pmix's own, on this shell
  SpawnOrder order;                                 // without what PmiSpawns adds
  static Result<PmixRequest> read(const Json& in);  // of pmi.spawn
};

// For each process of this shell: the variables that it is to have.
using SpawnEnvironments = std::vector<std::map<std::string, std::string>>;
Result<SpawnEnvironments> notify_begin(plugin::Host& host, const SpawnRound& round);

// `start`: the number of the tasks' start. `round`: the spawn's number in that start; 0: it has none. `asked`: the
// number of the request, if it is this shell's.
void notify_settled(plugin::Host& host, std::uint64_t start, std::uint64_t round,
                    std::optional<std::uint64_t> asked, const Result<void>& outcome);

void notify_over(plugin::Host& host);

class PmixPart final : public SpawnedPart {
 public:
  // `on_over`: all of them on this shell have ended; it may destroy this object.
  PmixPart(plugin::Host& host, const plugin::Plugin& plugin, const SpawnRound& round,
           std::function<void()> on_over);

  Result<void> start(const pmi::Spawn& spawn) override;
  void cancel() override;
  void signal(int signum) override;

  [[nodiscard]] std::uint32_t running() const override { return processes_.running(); }
  [[nodiscard]] std::vector<SpawnedProcess> that_run() const override { return processes_.that_run(ranks_); }
  [[nodiscard]] bool over() const override { return is_over_; }
  [[nodiscard]] bool is_connected() const override { return false; }  // pmix answers that itself
  [[nodiscard]] const PmiGroup* group() const override { return nullptr; }
  [[nodiscard]] std::uint32_t output_task() const override { return round_.order.task; }

  // pmix knows all of this.
  void shell_leaves() override {}
  void lost_elsewhere(std::uint32_t /*rank*/) override {}
  void lost_with_shell(std::uint32_t /*rank*/) override {}
  void shell_gone(std::uint32_t /*shell*/) override {}

 private:
  void exited(std::uint32_t index);
  void finish();

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  SpawnRound round_;
  std::function<void()> on_over_;
  std::vector<std::uint32_t> ranks_;  // of the processes on this shell
  SpawnedProcesses processes_;        // in their order
  bool is_over_ = false;
};

// The spawns of the job, as one shell knows them: which of their processes it has, on which shells the others are,
// and on which shells they have ended or are lost.
class SpawnTable {
 public:
  struct Entry {
    std::uint64_t start = 1;  // of the tasks, and the spawn's number in it
    std::uint64_t number = 0;
    std::vector<std::uint32_t> places;      // by rank: its shell
    std::unique_ptr<SpawnedPart> here;      // its processes on this shell
    std::unique_ptr<PmiExchange> bystands;  // set if this shell has none of them: for the barriers of the others
    value::Idset ended;                     // shells on which all of its processes have ended, as far as is known
    bool is_held = false;
    bool is_settled = false;  // it is known whether all have started
  };
  using Entries = std::list<Entry>;
  using Place = Entries::iterator;

  // All of them have to outlive this object. `before_drop`: this group of processes is about to be destroyed.
  SpawnTable(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options,
             std::function<void(const PmiGroup&)> before_drop)
      : host_(host), plugin_(plugin), options_(options), before_drop_(std::move(before_drop)) {}

  Place add(const SpawnRound& round);
  Entry* find(std::uint64_t start, std::uint64_t number);  // nullptr: it is not there
  void drop_those_over();
  Place begin() { return entries_.begin(); }
  Place end() { return entries_.end(); }

  // It is known whether all have started. If they have not, those that run here are ended.
  void settled(Entry& entry, bool all_started);
  // A process of this shell is lost.
  void announce_lost(const Entry& entry, std::uint32_t rank);
  // Its processes on this shell have ended. `several`: other shells have to know that, if it matters. The entry may
  // be dropped.
  void ended_here(Place place, bool several);
  // Announcements of other shells about spawns; others are ignored.
  void announced(std::string_view topic, std::string_view bytes);

  void signal(int signum);
  void shell_leaves();
  void shell_gone(std::uint32_t shell, bool is_lost);

  [[nodiscard]] std::uint32_t running() const;  // processes on this shell
  // `take` is called for each process that runs on this shell; `spawn`: the spawn's number in this start of all
  // tasks.
  using TakeProcess = std::function<void(std::uint64_t spawn, std::uint32_t task, const SpawnedProcess& process)>;
  void each_process(const TakeProcess& take) const;
  [[nodiscard]] bool is_connected() const;  // a process of this shell has called init, and not finalize
  // Something was spawned, on any shell, or is being spawned. Spawns that have failed do not count.
  [[nodiscard]] bool has_begun() const;

 private:
  Place drop(Place place);
  void announce(std::string_view topic, const Entry& entry, std::uint32_t what);
  [[nodiscard]] bool is_missed(std::uint32_t shell) const;
  void lose(Entry& entry, std::uint32_t shell, bool is_lost);

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  std::function<void(const PmiGroup&)> before_drop_;
  Entries entries_;
  bool has_settled_ = false;  // all processes of a spawn have started
  value::Idset gone_, lost_;  // other shells; lost_: those that have not left by themselves
};

class PmiSpawns : Noncopyable {
 public:
  // All of them have to outlive this object.
  PmiSpawns(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
            pmi::Quota& quota, PmiGroupParts& parts, PmiPort* port = nullptr);
  ~PmiSpawns();

  // At each start of the tasks, called at the same place in the order of the announcements. `several`: the job has
  // several shells, which know each other.
  void begin(const PmiStart& start, bool several);
  // Performs a request of a client of `spawner`, and answers it, perhaps later. `task`: the rank of the task that
  // the new processes' output is shown as; `name`: the client, for messages.
  void start(PmiGroup& spawner, const pmi::SpawnRequest& request, std::uint32_t task, const std::string& name);
  void forget(const PmiGroup& spawner);  // the group is about to be destroyed: its clients get no answers any more
  // The same for a client of PMIx. The answer is the topic pmi.spawn-settled.
  void start(PmixRequest request);

  void tasks_ended() {
    tasks_ended_ = true;
  }  // shell.finish has come: nothing new begins here, unless this shell
     // had no tasks
  // Spawned processes of this shell may run, or may still be started.
  [[nodiscard]] bool has_some() const { return gave_room_ || is_idle_ || table_.running() > 0; }
  [[nodiscard]] const SpawnTable& table() const { return table_; }
  [[nodiscard]] bool takes_part() const { return start_.takes_part; }
  [[nodiscard]] std::optional<std::uint32_t> universe_size() const { return start_.universe_size; }
  void all_tasks_ended();  // on the leader: those of all shells
  void shell_leaves();     // this shell is about to leave the job
  // Another shell has gone, and the job goes on. `is_lost`: it has not left by itself.
  void shell_gone(std::uint32_t shell, bool is_lost) { table_.shell_gone(shell, is_lost); }

 private:
  struct Asked {
    PmiGroup* spawner = nullptr;  // null: the request is one of PMIx
    std::uint64_t client = 0;     // by PMIx: the number of its request
    std::string name;
    std::uint32_t processes = 0;
    std::string program;
  };

  void perform(SpawnOrder order, const Asked& asked);
  Result<SpawnRound> start_alone(SpawnOrder order);
  [[nodiscard]] std::string kvsname_of(const SpawnRound& round) const;
  SpawnTable::Entry& make_entry(const SpawnRound& round);
  [[nodiscard]] std::unique_ptr<SpawnedPart> make_part(const SpawnRound& round, SpawnTable::Place place);
  void answer(const Asked& asked, const Result<SpawnRound>& round);

  std::optional<std::uint32_t> room();
  [[nodiscard]] std::uint32_t free_here() const;  // how many processes can have a core of their own
  Result<void> start_part(const SpawnRound& round);
  void settled(const SpawnRound& round, const Result<void>& outcome);
  void settle(SpawnTable::Entry& entry, const SpawnRound& round, const Result<void>& outcome);
  void announced(std::string_view topic, std::string_view bytes);

  void take_signals();
  void signal(int signum);
  void part_over(SpawnTable::Place place);
  void hold(SpawnTable::Entry& entry);
  void release(SpawnTable::Entry& entry);
  void release_hold();
  [[nodiscard]] bool has_no_tasks(std::uint32_t shell) const;
  void wait_if_idle();
  void stop_waiting();

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  pmi::Names& names_;
  pmi::Quota& quota_;
  PmiGroupParts& parts_;
  PmiPort* port_;
  PmiStart start_;
  bool several_ = false;
  SpawnRounds rounds_;
  SpawnTable table_;
  std::map<std::uint64_t, Asked> asked_;  // by this shell's number of the request
  std::uint64_t requests_ = 0;
  std::uint64_t count_ = 0;  // of groups, in a job of one shell
  bool gave_room_ = false;   // it has offered room, and holds the job until it is known what for
  bool tasks_ended_ = false;
  bool is_idle_ = false;     // this shell has no tasks, and takes processes as long as other shells have tasks
  bool idle_waits_ = false;  // is_idle_, and the job is held for that
  bool told_end_ = false;    // all_tasks_ended() has announced it
  bool shell_leaves_ = false;
  plugin::Registration signals_;
  plugin::Registration announcements_;
};

// The topics that are only about spawned processes.

// `spawns` has to outlive the plugin's handlers; it may have no value.
void serve_spawns(plugin::Plugin& plugin, std::optional<PmiSpawns>& spawns);

}  // namespace nacre::plugins
