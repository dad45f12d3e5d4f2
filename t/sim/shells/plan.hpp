// SPDX-License-Identifier: Apache-2.0
//
// What a seed draws: a job of real shells, its tasks' acts, the requests while it runs, and its faults.
#pragma once

#include "shells/kernel.hpp"

namespace nacre::shells {

struct Fault {
  enum class Kind : std::uint8_t {
    kill,       // a shell
    stop,       // a shell stands still for some time
    cut,        // a link of a shell
    terminate,  // SIGTERM to the leader
    hang_up,    // the launcher goes
    end_task,   // SIGKILL to a task
    signal,     // another one to a shell
    divide      // divides a shell, or that shell and those of higher ranks, from all others
  };
  Kind kind = Kind::kill;
  std::uint64_t step = 0;   // of the kernel
  std::uint32_t shell = 0;  // by its rank; of end_task: the task's
  Nanoseconds length = 0;   // of a stop, of a division
  int signum = 0;           // of a signal
  bool with_later = false;  // of a division: with shells of higher ranks
};

// A front end's request to the leader.
struct Order {
  enum class Kind : std::uint8_t { shrink, grow, restart, kill, look };
  Kind kind = Kind::look;
  Nanoseconds after = 0;    // after the job can be reached
  std::uint32_t count = 0;  // of shells; 0: by their ranks
  std::vector<std::uint32_t>
      of;                 // shells to leave; tasks to start again, or to get a signal, all if there are none
  Nanoseconds grace = 0;  // of shrink
  bool all = false;       // of grow: or none of them
  int signum = 0;         // of kill
  std::string what = {};  // of look: the request
};

// The fate of a shell by which the job grows.
struct Newcomer {
  enum class Fate : std::uint8_t { joins, never_comes, is_killed };
  Fate fate = Fate::joins;
  Nanoseconds after = 0;  // how long after its start it is killed
};

// The topic in which a handler of the initrc fails, on one shell.
struct Failure {
  std::uint32_t shell = 0;
  std::string topic;
  bool dies = false;  // by shell.die, otherwise by an error of Lua
};

struct Plan {
  std::uint64_t seed = 1;
  std::uint32_t shells = 1, tasks_per_shell = 1, arity = 2;
  std::uint32_t spares = 0;           // how many of the shells have no tasks
  std::uint32_t least = 0, most = 0;  // of a job whose size may change (resize): shells with tasks; else 0
  std::uint32_t barriers = 0;         // of PMI, in each task
  Nanoseconds longest = 0;            // how long a task sleeps, in all
  bool all_succeed = false;           // the tasks, at each start
  std::vector<std::string> options;
  std::vector<Fault> faults;
  std::vector<Order> orders;
  std::optional<Failure> failure;
  bool witness = false;  // the initrc notes each shell's topics
  Nanoseconds most_delay = 0, most_pause = 0;
  bool slow_reader = false;  // the job's output is read slowly
  bool overlaps = false;     // see Kernel::Options
  bool hands_over = false;   // the leader is lost, and otherwise the job only grows and shrinks

  [[nodiscard]] TaskScript script(std::uint32_t rank, std::uint32_t start) const;
  [[nodiscard]] Newcomer newcomer(std::uint32_t shell) const;
  [[nodiscard]] TaskScript hook(std::uint64_t number) const;          // of what else shells start, by its number
  [[nodiscard]] bool has_option(const std::string& text) const;       // "name=value"
  [[nodiscard]] std::string value_of(std::string_view option) const;  // "": it is not given
  [[nodiscard]] Nanoseconds time_of(std::string_view option, Nanoseconds usual) const;  // kNever: none
  [[nodiscard]] std::optional<std::uint32_t> most_restarts()
      const;                                 // as the option restart has it; none: not given
  [[nodiscard]] std::string initrc() const;  // the text of the initrc
  [[nodiscard]] bool has_fault(Fault::Kind kind) const;
  [[nodiscard]] bool has_order(Order::Kind kind) const;
  [[nodiscard]] std::uint32_t ranks() const { return (shells - spares) * tasks_per_shell; }
  [[nodiscard]] bool resizes() const { return most > 0; }
  [[nodiscard]] std::string text() const;  // a line
};

struct PlanLimits {
  std::uint32_t shells = 16;
  bool large = false;  // the job has at least half of the largest number of shells
  std::uint32_t faults = 0;
  bool overlaps = false;
  bool hands_over = false;
};

// The beginning of each line that the task writes.
std::string task_mark(std::uint32_t rank, std::uint32_t start);
std::string job_folder();    // where all files of a job are
std::string witness_file();  // what the witness has noted: a line for each call, SHELL TOPIC RANK ARGUMENTS
std::string text_of(const Fault& fault);
std::string text_of(const Order& order);

Plan make_plan(std::uint64_t seed, const PlanLimits& limits);

}  // namespace nacre::shells
