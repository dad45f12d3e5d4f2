// SPDX-License-Identifier: Apache-2.0
//
// What the leader asks the shells of all nodes, and what they answer: an announcement to all, and records of bulk
// data that come up to the leader alone. A shell that has not answered in time is left out, and named.
#pragma once

#include "bulk/port.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugin/questions.hpp"
#include "plugins/usage/meter.hpp"
#include "usage/gpu.hpp"

namespace nacre::plugins {

// What this shell's tasks use of GPUs at the moment, for `nacre top --gpu`: what the plugin usage has seen last, if
// it measures GPUs (usage-gpu); otherwise by a look of its own, which begins only when somebody asks.
class GpuAnswers {
 public:
  // The most time for a look; after it the last look's result is given. Less than the leader waits for an answer.
  static constexpr event::Seconds kMostWait{1.5};

  explicit GpuAnswers(plugin::Host& host) : host_(host) {}

  using GpusByRank = std::map<std::uint32_t, usage::TaskGpu>;
  // `notes`: what is wrong, for people. It is called once, perhaps before ask() returns.
  using Done = std::function<void(const GpusByRank& tasks, const std::set<std::string>& notes)>;
  void ask(Done done);
  // Ends the look that is under way; those who wait for it get nothing more.
  void stop();

 private:
  [[nodiscard]] bool answer_by_plugin(const Done& done);
  void tell(const std::set<std::string>& notes);

  plugin::Host& host_;
  std::optional<GpuWatch> watch_;
  std::optional<event::Timer> timer_;
  std::vector<Done> waiting_;
  GpusByRank last_;
  bool is_looking_ = false, is_over_ = false;
};

// What the tasks of this shell, and the processes that tasks have spawned on it, do and use at the moment: by one
// look at all processes, proc(5), and only when somebody asks.

// For a process that is no task: who has spawned it.
struct SpawnOrigin {
  std::uint64_t spawn = 0;  // counted from 1, in this start of all tasks
  std::uint32_t task = 0;   // the rank as whose output its own comes out
  std::uint32_t shell = 0;  // that it is on
};

struct TaskProcess {
  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  std::string state;                       // a letter of proc(5)
  double elapsed = 0;                      // seconds since its start
  double cpu = 0;                          // seconds of CPU time that it and the processes below it have used
  std::uint64_t memory = 0;                // resident memory of all of these, bytes
  std::string program;                     // that it runs now
  std::optional<usage::TaskGpu> gpu = {};  // if it was asked for, and something is known
  std::optional<SpawnOrigin> origin = {};  // set if it was spawned; then `rank` is that in its spawn

  // [rank, pid, state, elapsed, cpu, memory, program], then, with `gpu`, its memory and use, null for none, or,
  // with `origin`, [spawn, task, shell]
  [[nodiscard]] Json json() const;
  static Result<TaskProcess> parse(const Json& json);
};

// Tasks come first, then what was spawned, by spawn; each in the order of ranks.
bool operator<(const TaskProcess& a, const TaskProcess& b);

// What this shell cannot know of processes, for people: a line, if /proc is missing.
[[nodiscard]] std::set<std::string> notes_on_processes(plugin::Host& host);

// The tasks and processes that run, in that order. Without /proc their states are "?", and the rest is not known.
[[nodiscard]] std::vector<TaskProcess> task_processes(plugin::Host& host,
                                                      const std::map<std::uint32_t, usage::TaskGpu>& gpus = {});

// Where the tasks of this shell are, and why: by the plan of cpu-affinity, by what was set when each task was
// started, and by the cpus that its process may use now. Looked up only when somebody asks (`nacre ps --plan`).
struct TaskPlace {
  // For cpus, memory, gpus, network cards. Both empty: no option asks for it, and there is nothing to tell.
  struct Part {
    std::string where;  // "0-3", "bind 0", "0,1", "mlx5_0:1"; "none"
    std::string why;
    bool operator==(const Part&) const = default;
  };

  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  Part cpus, memory, gpus, nics;
  std::string cpus_now;    // the cpus that its process may use; "": it has ended meanwhile
  std::string unset;       // why cpus and memory are planned, but not set: "dry-run"; "": they are set
  std::string executable;  // the file that it executes now; "": it has ended meanwhile, or that may not be read

  [[nodiscard]] Json json() const;  // an array, for the leader
  static Result<TaskPlace> parse(const Json& json);

  bool operator==(const TaskPlace&) const = default;
  friend bool operator<(const TaskPlace& a, const TaskPlace& b) { return a.rank < b.rank; }
};

// The places of the tasks that run, in the order of their ranks.
[[nodiscard]] std::vector<TaskPlace> task_places(plugin::Host& host);

class Questions {
 public:
  static constexpr event::Seconds kMostAnswerTime{2};
  static constexpr std::size_t kMostOpen = 16;  // questions

  explicit Questions(plugin::Host& host) : host_(host), gpus_(host) {}

  // On every shell, in shell.init: from here on it answers.
  void serve();

  // On the leader. `done` is called once, perhaps before this returns: with a row for each process that runs, in
  // their order, the shells that are late, and what is wrong, for people. EBUSY: too many are open.
  using Notes = std::set<std::string>;
  template <typename Row>
  using Done = std::function<void(std::vector<Row> rows, const value::Idset& late, const Notes& notes)>;
  Result<void> ask_processes(Done<TaskProcess> done);
  // The same, with what they use of GPUs. That takes longer, so `refused` gets the error.
  void ask_processes_with_gpus(Done<TaskProcess> done, std::function<void(const Error&)> refused);
  Result<void> ask_places(Done<TaskPlace> done);
  // The job ends: no GPU is looked at any more.
  Result<void> stop() {
    gpus_.stop();
    return {};
  }
  // That shell will not answer any more.
  void lost(std::uint32_t shell) { open_.gone(shell); }
  [[nodiscard]] const value::Idset& gone() const { return open_.gone(); }

 private:
  // Announcement: what is asked for, a word, and the question's number.
  static constexpr const char* kTopic = "control.ask";

  struct ShellAnswers {
    std::vector<Json> rows;
    Notes notes;
  };

  void answer(std::string_view question);
  void send(std::uint64_t number, std::vector<Json> rows, const Notes& notes);
  template <typename Row>
  Result<void> ask(std::string_view word, const std::vector<Row>& own, const Notes& notes, Done<Row> done);
  void take(std::uint32_t shell, std::string_view bytes);

  plugin::Host& host_;
  plugin::Registration asked_;
  bulk::RecordQueue records_{bulk::up::kControl};
  plugin::OpenQuestions<ShellAnswers> open_{host_, kTopic, kMostOpen};
  GpuAnswers gpus_;
};

}  // namespace nacre::plugins
