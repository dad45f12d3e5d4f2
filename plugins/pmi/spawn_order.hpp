// SPDX-License-Identifier: Apache-2.0
//
// What a shell tells all others of a spawn that one of its processes has requested: doc/protocol.md, "What the
// shells say".
#pragma once

#include <sys/types.h>

#include "base/pump.hpp"
#include "plugin/host.hpp"
#include "plugins/pmi/start.hpp"
#include "pmi/spawn.hpp"
#include "task/command.hpp"

namespace nacre::plugins {

inline constexpr const char* kPmixLibrary = "pmix";  // and the name of its plugin

struct SpawnOrder {
  std::uint64_t start = 1;    // of the tasks, as PmiStart::number
  std::uint32_t shell = 0;    // that of the process that has requested it
  std::uint64_t request = 0;  // that shell's number for the request
  std::uint32_t task = 0;     // the rank of the task that the new processes' output is shown as
  std::string spawner;        // the kvsname of the requesting process's group, or its namespace
  std::string library;        // "pmix"; empty: PMI-1 or PMI-2
  std::uint32_t client = 0;   // by PMIx: the process's rank in its namespace
  // The tasks' limits and settings, and whether each leads a session; for shells without a task.
  task::ChildSetup setup;
  pmi::Spawn spawn;

  [[nodiscard]] std::string encode() const;
  static Result<SpawnOrder> decode(std::string_view bytes);
  [[nodiscard]] bool by_pmix() const { return library == kPmixLibrary; }
};

// Copies what all processes of the job have in common with a task.
void copy_common_setup(const task::ChildSetup& model, task::ChildSetup& out);

// On which shells the processes of a spawn run. Shells with free cores get processes first: the requesting
// process's shell before the others, which follow in their order. The rest is spread evenly. Each program of the
// spawn is placed behind the last one, on its own hosts if it names some.
struct SpawnRoom {
  std::uint32_t shell = 0;
  std::string host;
  std::optional<std::uint32_t> free;  // how many processes can have a core of their own; none: the shell takes no
                                      // process
};

// By rank of the new group: its shell. `rooms`: those of all shells, by ascending number, that of `asker` included.
// EINVAL: the request is wrong; ECANCELED: no shell takes a process.
Result<std::vector<std::uint32_t>> place_spawn(const pmi::Spawn& spawn, std::vector<SpawnRoom> rooms,
                                               std::uint32_t asker);

// MPI_UNIVERSE_SIZE of the spawned processes: their number, plus as many as then still have free cores. None: no
// core is left, so that a program finds no number and spawn refuses nothing. `rooms`: as before the placement.
[[nodiscard]] std::optional<std::uint32_t> universe_of_spawn(const std::vector<std::uint32_t>& places,
                                                             const std::vector<SpawnRoom>& rooms);

// The ranks that are on this shell; `places`: as place_spawn() returns them.
[[nodiscard]] value::Idset ranks_placed_on(const std::vector<std::uint32_t>& places, std::uint32_t shell);

// Spawns in a job of several shells. The shell of the process that requests one announces it. All shells perform
// them one after the other, in the order of the announcements: each says how many processes it has room for; all
// compute alike where the processes run; shells that get some start them, and say whether they could. So all shells
// know the same about each spawn, even if one is lost meanwhile, and spawns that are requested at the same time
// take each other's processes into account.
//
// Each spawn costs a message to every shell, and two collectives of all shells.
struct SpawnRound {
  SpawnOrder order;
  std::uint64_t number = 0;                    // from 1, within this start of the tasks
  std::uint32_t last = 0;                      // the shells up to this one perform it
  std::vector<std::uint32_t> places;           // by rank: its shell; empty if no place was found
  std::optional<std::uint32_t> universe = {};  // MPI_UNIVERSE_SIZE of its processes, see universe_of_spawn()

  [[nodiscard]] std::string name() const;  // of its collectives, before a dot
  [[nodiscard]] bool has(std::uint32_t shell) const;
};

class SpawnRounds {
 public:
  struct Callbacks {
    std::function<std::optional<std::uint32_t>()> on_room;    // of this shell, as SpawnRoom::free
    std::function<Result<void>(const SpawnRound&)> on_start;  // starts the processes of this shell, if it has some
    // Called for each round that on_room was called for. An error: there are to be no such processes. It is the
    // same on all shells.
    std::function<void(const SpawnRound&, const Result<void>&)> on_settled;
  };

  SpawnRounds(plugin::Host& host, Callbacks callbacks) : host_(host), callbacks_(std::move(callbacks)) {}

  // Called at one place in the order of the announcements: requests of an earlier start are not performed any more.
  // `takes_part`: whether this shell does.
  void begin(const PmiStart& start, bool takes_part);
  Result<void> announce(SpawnOrder order);
  void announced(std::string_view bytes);  // with kTopic

  static constexpr std::string_view kTopic = "pmi.spawn";

 private:
  enum class Step { begin, rooms, start, settle, over };
  struct Open {
    SpawnRound round;
    Step next = Step::begin;
    bool waits = false;  // for the last collective to be answered
    Result<plugin::Gathered> gathered = plugin::Gathered();
    Result<void> outcome;
    plugin::Registration rooms, starts;
  };

  bool step();
  void perform(Open& open);
  plugin::Registration gather(Open& open, std::string_view what, std::string mine);
  void place(Open& open);
  [[nodiscard]] Result<void> outcome_of(const Open& open) const;

  plugin::Host& host_;
  Callbacks callbacks_;
  std::uint64_t start_ = 0;
  std::uint32_t last_ = 0;
  bool takes_part_ = false;
  std::uint64_t count_ = 0;
  std::deque<std::unique_ptr<Open>> open_;
  Pump pump_;
};

// The processes of a spawn that this shell has, by whichever library they were requested.
class PmiGroup;

struct SpawnedProcess {
  std::uint32_t rank = 0;  // among the processes of the spawn
  pid_t pid = 0;
};

class SpawnedPart : Noncopyable {
 public:
  SpawnedPart() = default;
  virtual ~SpawnedPart() = default;

  // Starts all of them. After an error some may run.
  virtual Result<void> start(const pmi::Spawn& spawn) = 0;
  // Not all of them could be started, here or elsewhere. Ends those that run, and reports that they are over once
  // none runs, perhaps at once.
  virtual void cancel() = 0;
  virtual void signal(int signum) = 0;  // sends it to all that run

  [[nodiscard]] virtual std::uint32_t running() const = 0;
  [[nodiscard]] virtual std::vector<SpawnedProcess> that_run() const = 0;  // in the order of ranks
  // All have ended, which was reported, and no other shell waits for this one in a barrier.
  [[nodiscard]] virtual bool over() const = 0;
  [[nodiscard]] virtual bool is_connected() const = 0;          // one has called init, and not finalize
  [[nodiscard]] virtual const PmiGroup* group() const = 0;      // nullptr: it is none of PMI-1 and PMI-2
  [[nodiscard]] virtual std::uint32_t output_task() const = 0;  // the rank of the task that their output is shown
                                                                // as

  // See PmiDepartures::shell_leaves().
  virtual void shell_leaves() = 0;
  virtual void lost_elsewhere(std::uint32_t rank) = 0;
  virtual void lost_with_shell(std::uint32_t rank) = 0;
  virtual void shell_gone(std::uint32_t shell) = 0;  // a shell with some of them has gone, and the job goes on
};

}  // namespace nacre::plugins
