// SPDX-License-Identifier: Apache-2.0
//
// A job as its shells run it, from a seed: its tasks, where its shells fail, and what is done to their hosts.
#pragma once

#include <optional>

#include "exits/policy.hpp"
#include "job_changes.hpp"
#include "world.hpp"

namespace nacre::sim {

// What a shell goes through, in this order.
enum class Phase : std::uint8_t {
  unborn,
  join,
  create,
  load,
  init,
  init_barrier,
  post_init,
  tasks,
  start,
  start_barrier,
  finish,
  all_tasks,
  complete,
  close,
  exit_barrier,
  exit,
  end,
  end_barrier,
  leave,
  over,
};
const char* name_of(Phase phase);

// Where what a shell calls can fail.
enum class Place : std::uint8_t {
  create,
  load,
  init,
  post_init,
  task_init,
  task_fork,
  start,
  task_exit,
  finish,
  complete,
  exit,
};
const char* name_of(Place place);

enum class How : std::uint8_t { fails, dies, raises, crashes };

struct Failure {
  Id shell = 0;
  Place place = Place::init;
  How how = How::fails;
  std::optional<int> code;  // of `dies` any; of `raises` a task's, or none
};

enum class Blow : std::uint8_t {
  kill,  // SIGKILL to the shell
  darken,
  freeze,
  reset,
  cut,
  isolate,
  slow,
  signal,           // to the shell `a`
  launcher_signal,  // through the launcher, to the leader
  launcher_gone,
};

struct Strike {
  Blow blow = Blow::kill;
  std::optional<Phase> phase;  // `at` after the shell `a` has come to it; none: after the beginning
  Time at{};
  Id a = 0;
  Id b = 0;
  Time span{};
  int signum = 0;
};

enum class Reaction : std::uint8_t { dies, exits, ignores };  // to a signal that can be caught

struct TaskPlan {
  Id shell = 0;
  Time runs{};
  int raw = 0;          // how it ends by itself, as waitpid(2) has it
  int not_started = 0;  // 126, 127; 0: it can be started
  Reaction reaction = Reaction::dies;
  Time reacts{};
  int code = 0;  // of Reaction::exits
};

struct JobPlan {
  std::uint64_t seed = 0;
  std::uint32_t members = 2;
  std::uint32_t arity = 2;
  bool tolerant = false;  // option tolerate-loss
  bool launched = false;  // each shell by its parent in the tree, which learns how it ends
  bool over_the_wire = false;
  bool leisurely = false;       // handlers take long
  std::vector<TaskPlan> tasks;  // by rank
  exits::Policy policy;
  std::vector<Failure> failures;
  std::vector<Strike> strikes;
  std::optional<Changes> changes;  // none: it stays as it is

  // Microseconds that a handler takes at most.
  [[nodiscard]] std::uint64_t most_held() const;
  [[nodiscard]] Idset all_ranks() const;
  [[nodiscard]] Idset ranks_of(Id shell) const;
  // A task at its start, and where it starts again.
  [[nodiscard]] TaskPlan task(Id rank, std::uint32_t attempt) const;
  // Nothing was done to a process, a host or a link, so each shell reaches each other all the time.
  [[nodiscard]] bool is_calm() const;
};

JobPlan make_job_plan(std::uint64_t seed, std::uint32_t most_members);
std::string brief(const Failure& failure);
std::string brief(const Strike& strike);

struct JobOutcome {
  std::string broken;                                          // "": all invariants held
  std::uint64_t answers = 0, joined = 0, left = 0, again = 0;  // to orders; shells; starts of tasks
  std::uint64_t messages = 0;
  bool ended_early = false;
  bool led_to_the_end = false;  // the leader has decided
};
JobOutcome run(const JobPlan& plan, bool trace);

// The same failure with as few failures, strikes and tasks as were found; `broken` is what it broke.
JobPlan shrink(const JobPlan& plan, std::string& broken);

}  // namespace nacre::sim
