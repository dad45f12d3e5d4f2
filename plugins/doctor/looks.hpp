// SPDX-License-Identifier: Apache-2.0
//
// Looks at processes, by proc(5), and what two looks tell of this shell's tasks.
#pragma once

#include <sys/types.h>

#include "doctor/facts.hpp"
#include "event/clock.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// One look at a process, by proc(5).
struct ThreadLook {
  pid_t tid = 0;
  std::string name;         // at most 15 bytes; a thread has that of its program, or one of its own
  char state = '?';         // as in proc(5)
  double cpu = 0;           // seconds that it has run
  double ready = 0;         // seconds that it was ready to run and did not
  std::uint64_t waits = 0;  // how often it has gone to sleep
  std::string where;        // the function of the kernel in which it waits; "": in none, or unknown

  [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X'; }
};

struct ProcessLook {
  static constexpr std::size_t kMostThreads = 256;

  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;         // the program's, at most 15 bytes
  double cpu = 0;           // seconds that all of its threads have run
  double started = 0;       // seconds since the boot
  std::uint64_t moved = 0;  // bytes read and written, by system calls; 0 if that may not be known
  std::uint64_t threads_in_all = 1;
  std::vector<ThreadLook> threads;  // by id, at most kMostThreads; at least one

  [[nodiscard]] const ThreadLook& first() const;            // the one whose id is that of the process
  [[nodiscard]] const ThreadLook* thread(pid_t tid) const;  // null: there is none
  [[nodiscard]] double ready() const;                       // of all its threads
};

// See ProcessLook::moved.
[[nodiscard]] std::uint64_t bytes_moved_by(pid_t pid);

// None: the process is gone.
[[nodiscard]] std::optional<ProcessLook> look_at(pid_t pid);

// What a process has used of the cpus, in seconds; by less reading than look_at() needs.
struct CpuLook {
  double cpu = 0;                 // that it has run, with the children that it has waited for
  std::map<pid_t, double> ready;  // for each of its first `most_threads` threads: that it was ready to run and did
                                  // not
};
// None: the process is gone.
[[nodiscard]] std::optional<CpuLook> cpu_look_at(pid_t pid, std::size_t most_threads);

// Whether the cgroup of a process, of version 2 or 1, is frozen. Files of /proc and of cgroups are read only if the
// look at its first thread is that of a process that may be frozen.
[[nodiscard]] bool is_frozen(const ProcessLook& look);

// The system call in which a thread is.
struct SystemCall {
  std::string name;  // "read"; "" if it is in none
  int fd = -1;       // the descriptor of a read or write; -1: none
  // Seconds after which the call returns in any case; 0: unknown how many; none: it waits until something comes.
  std::optional<double> limit;
  bool is_lock = false;     // it waits for a lock, or for the end of a thread: for a change of memory at `address`
  bool is_private = false;  // by the call, no other process has that memory
  std::uint64_t address = 0;  // in its memory
};
// EPERM, EACCES: this may not be known. ESRCH: the process is gone.
struct CallAnswer {
  SystemCall call;
  int code = 0;
};
[[nodiscard]] CallAnswer current_call(pid_t pid, pid_t tid);

// What has become of a process between two looks.
struct Change {
  double cpu = 0, ready = 0;  // seconds, of all threads
  bool moves = false;         // it has read or written, a thread has begun or ended, or has been woken by others
  bool wakes = false;         // a thread has slept and woken because a time was over, as far as is known

  [[nodiscard]] double wanted() const { return cpu + ready; }
};
// `interval`: seconds between the looks. If a process may not be traced, any thread that has woken counts as woken
// by others, except those that sleep in nanosleep.
[[nodiscard]] Change change_of(const ProcessLook& before, const ProcessLook& now, double interval);

// Whether the thread is one that a library has made for itself, as UCX does for its connections: such a thread does
// not use the program's locks and pipes, and does not show what the program does.
[[nodiscard]] bool is_of_library(pid_t pid, const ThreadLook& thread);

// The threads of the process that have waited at both looks without being woken, in calls without a time limit.
// This function and the next leave out the threads of libraries.
[[nodiscard]] std::set<pid_t> waiting_threads(const ProcessLook& before, const ProcessLook& now);

// The number of its threads, if all have waited at both looks for locks of the process, or for each other's end:
// for ever, as nobody else can wake them. 0: this is not so, or may not be known.
[[nodiscard]] std::uint64_t locked_threads(const ProcessLook& before, const ProcessLook& now);

// For a process whose system call may not be known: what it does, as it waits in `where`. `object` as in
// doctor::Fact.
struct GuessedCall {
  std::string name, object;
};
[[nodiscard]] GuessedCall call_by_place(const std::string& where);

// What a descriptor is.
struct DescriptorKind {
  std::string object;  // as in doctor::Fact; "": unknown
  std::string path;    // of a file or a FIFO with a name
  std::string link;    // as /proc/PID/fd has it: equal for both ends of a pipe
};
[[nodiscard]] DescriptorKind kind_of_descriptor(pid_t pid, int fd);

// What the tasks of this shell do, by two looks at each of their processes and threads. One thread stands for each
// task: the busiest thread of its busiest process. If no process of the task runs, it is the first thread of the
// process that the task's first process waits for; and if that thread waits for another, a thread of the same
// process that waits for a descriptor.
class TaskLooks {
 public:
  explicit TaskLooks(plugin::Host& host);  // the first look

  // A task of this shell that has not ended.
  struct Examined {
    std::uint32_t rank = 0;
    pid_t pid = 0;            // the process that stands for the task; 0: it has no process
    pid_t tid = 0;            // the thread that stands for it
    std::set<pid_t> waiting;  // its other threads, as in waiting_threads()
    bool was_stopped = false;
    doctor::TaskGroup group;  // of this rank alone
  };
  [[nodiscard]] std::vector<Examined> look_again();  // the second look
  // What could not be found out, for people; valid after the second look.
  [[nodiscard]] const std::set<std::string>& notes() const { return notes_; }

 private:
  using Looks = std::map<pid_t, ProcessLook>;

  [[nodiscard]] static Looks processes_of(const task::Task& task);
  [[nodiscard]] static const ProcessLook& representative(const task::Task& task, const Looks& before,
                                                         const Looks& now, double interval);
  Examined examine(const task::Task& task, double interval);
  void add_changes(const Looks& before, const Looks& now, double interval, doctor::TaskGroup& group);
  void add_call(Examined& examined, const ThreadLook& thread);
  void add_pipe_ends(std::vector<Examined>& all);
  [[nodiscard]] doctor::PipeEnd end_of(const Examined& examined, const std::set<pid_t>& holders) const;
  void add_pmi(const task::Task& task, doctor::Fact& fact);
  void add_output(const task::Task& task, double started, doctor::TaskGroup& group);

  plugin::Host& host_;
  event::Seconds begun_;                         // clock_now()
  std::map<std::uint32_t, Looks> before_, now_;  // by rank
  std::map<std::uint32_t, std::string> pipes_;   // by rank: the pipe that it waits to read from, or to write to
  std::set<std::string> notes_;
};

// Finds who has pipes open: by one look at the descriptors of all processes, and only if a task waits to read from
// a pipe, or to write to one.
struct PipeEnds {
  std::set<pid_t> writers, readers;
};

// `links`: the pipes' links, as in /proc/PID/fd. Processes whose descriptors this one may not see are left out.
[[nodiscard]] std::map<std::string, PipeEnds> pipe_ends(const std::set<std::string>& links);

}  // namespace nacre::plugins
