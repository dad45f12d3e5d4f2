// SPDX-License-Identifier: Apache-2.0
//
// The processes that clients of PMI spawn: each call makes a process group with its own server, on this node, or on
// nodes of the job that have room (SpawnRounds).
//
// They run in the job's environment and directory, without stdin. Their output comes out as that of the task that
// requested them, directly or by a chain of spawns. They get each signal that the tasks get, and the job waits for
// them. Their ends count like those of tasks, but not for the job's exit code, which is that of the tasks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "plugin/host.hpp"
#include "plugins/pmi/group.hpp"
#include "plugins/pmi/options.hpp"
#include "plugins/pmi/pmix_part.hpp"
#include "plugins/pmi/spawn_rounds.hpp"
#include "plugins/pmi/spawn_table.hpp"
#include "plugins/pmi/spawned_part.hpp"
#include "plugins/pmi/start.hpp"

namespace nacre::plugins {

class PmiSpawns {
 public:
  // All of them have to outlive this object.
  PmiSpawns(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options, pmi::Names& names,
            pmi::Quota& quota);
  ~PmiSpawns();
  PmiSpawns(const PmiSpawns&) = delete;
  PmiSpawns& operator=(const PmiSpawns&) = delete;

  // At each start of the tasks, at one place in the order of the announcements. `several`: the job has several
  // shells, which know each other.
  void begin(const PmiStart& start, bool several);
  // Performs a request of a client of `spawner`, and answers it, perhaps later. `task`: the rank as whose output
  // theirs comes out; `name`: the client, for messages.
  void start(PmiGroup& spawner, const pmi::SpawnRequest& request, std::uint32_t task, const std::string& name);
  void forget(const PmiGroup& spawner);  // it is about to go: none of its clients is answered any more
  // The same for a client of PMIx. The answer is the topic pmi.spawn-settled.
  void start(PmixRequest request);

  void tasks_ended() { tasks_ended_ = true; }  // shell.finish has come: nothing new begins here, unless it had none
  // Processes of this shell that have been spawned may run, or be started yet.
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
    PmiGroup* spawner = nullptr;  // null: it is one of PMIx
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
  [[nodiscard]] std::uint32_t free_here() const;  // so many processes have a core of their own
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
  PmiStart start_;
  bool several_ = false;
  SpawnRounds rounds_;
  SpawnTable table_;
  std::map<std::uint64_t, Asked> asked_;  // by this shell's number of the request
  std::uint64_t requests_ = 0;
  std::uint64_t count_ = 0;  // of groups, in a job of one shell
  bool gave_room_ = false;   // and holds the job until it is known what for
  bool tasks_ended_ = false;
  bool is_idle_ = false;     // it has no tasks, and takes processes as long as others have some
  bool idle_waits_ = false;  // and the job is held for that
  bool told_end_ = false;    // all_tasks_ended() has announced it
  bool shell_leaves_ = false;
  plugin::Registration signals_;
  plugin::Registration announcements_;
};

}  // namespace nacre::plugins
