// SPDX-License-Identifier: Apache-2.0
//
// What tasks do at the moment, for `nacre doctor`: without process ids and addresses, so that tasks that do the
// same have equal facts, and form one group with a set of ranks.
#pragma once

#include "base/json_fwd.hpp"
#include "value/idset.hpp"

namespace nacre::doctor {

// What the process does that stands for the task.
enum class Doing : std::uint8_t {
  busy,         // it ran, or was ready to run, for at least half of the interval
  sleeps,       // it waits, and signals reach it
  stuck,        // it waits in the kernel, and no signal ends that (state D), at both looks
  stopped,      // SIGSTOP, SIGTSTP (state T)
  traced,       // stopped by a debugger (state t)
  frozen,       // by the freezer of its cgroup
  over,         // its process has ended, and has not been reported
  not_started,  // the task has no process yet
};

// Who has the other end of a pipe open that a task reads from, or writes to. `itself`: only processes of the task
// that wait with it.
enum class PipeEnd : std::uint8_t { unknown, nobody, itself, shell, others };

// Whether two stacks of a thread, taken one after the other, show that it gets on.
enum class Steps : std::uint8_t { unknown, none, some };

// Tasks with equal facts are one group. The busiest thread of the busiest process stands for a task.
struct Fact {
  Doing doing = Doing::sleeps;
  std::string program;  // the one that stands for the task
  std::string where;    // the function of the kernel in which it waits; "": it does not wait, or that is unknown
  std::string call;     // the system call: "read"; "": none, or unknown
  std::string object;   // what the call is about: "pipe", "socket", "terminal", "file", ...; "": unknown
  PipeEnd writer = PipeEnd::unknown;  // of a pipe that it reads
  PipeEnd reader = PipeEnd::unknown;  // of a pipe that it writes to
  bool is_input = false;              // the call is about its standard input
  bool moves = false;                 // it has read, written, or been woken by others in the interval
  bool wakes = false;        // a thread of it has slept and woken because a time was over, as far as is known
  std::uint64_t locked = 0;  // how many threads it has, if all wait for each other for ever; otherwise 0
  Steps steps = Steps::unknown;
  bool holds_lock = false;         // its thread waits while it has the lock of Python's interpreter (the GIL)
  std::string pmi;                 // "connected", "finalized"; "": it does not use PMI, or that is unknown
  std::uint64_t barrier = 0;       // number of the PMI barrier that it is in; 0: in none
  std::vector<std::string> stack;  // from the outermost function on; empty: not taken
  std::vector<std::vector<std::string>> others;  // the other stacks of threads that wait, each once, in order

  [[nodiscard]] Json json() const;
  static Result<Fact> parse(const Json& json);
  auto operator<=>(const Fact&) const = default;
};

// A value that differs between tasks of a group.
struct Range {
  double least = 0, most = 0, sum = 0;
  std::uint64_t count = 0;

  void add(double value) { *this += Range{value, value, value, 1}; }
  Range& operator+=(const Range& other);
  [[nodiscard]] double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

struct TaskGroup {
  value::Idset ranks;
  Fact fact;
  Range cpu;         // of one CPU, over the interval: 1 is 100 %
  Range ready;       // the same for when it was ready to run while other processes ran
  Range silent;      // seconds since it has last written, or since its start, for tasks of which this is known
  Range bytes;       // of output so far, for tasks of which this is known
  std::string path;  // of the first rank: the file that the call is about, the line of a script; "": none

  [[nodiscard]] Json json() const;
  static Result<TaskGroup> parse(const Json& json);
};

// Groups with equal facts become one; the largest come first, then those with the least ranks.
[[nodiscard]] std::vector<TaskGroup> folded(std::vector<TaskGroup> groups);

}  // namespace nacre::doctor
