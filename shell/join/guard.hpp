// SPDX-License-Identifier: Apache-2.0
//
// A process beside the shell, which
//
//   - ends what the shell's children have started if the shell is killed: by their process groups and, for
//     processes that have left their group, by the mark in their environment (job::kShellMark). Tasks, coprocesses
//     and the like need no guard: the kernel ends them with the shell (ChildSetup::ends_with_parent);
//   - runs a command that is left to be run then, such as one that ends an allocation of the job;
//   - then removes the job's directory and the shell's socket, and writes into the list of jobs that the job has
//     ended;
//   - kills the shell if the process that started it has gone, and a handler does not return, or a signal has
//     stopped the shell for good. One line reports that, and names the plugin;
//   - reports that a leader stands still if its launcher, on another host, cannot see that;
//   - names the plugin in whose handler the shell has ended, if the shell itself did not;
//   - removes what is too old in the list of jobs, if the shell has left that for after its end.
#pragma once

#include <sys/types.h>

#include "base/current_call.hpp"
#include "event/children.hpp"
#include "transport/address.hpp"

namespace nacre::join {

// What the process beside a shell does (guard.hpp), and what the shell sends it: records on a pipe, each written as
// a whole.
//
//   1 byte   Kind
//   2 bytes  how many bytes follow
//   bytes    group, left_group, no_group: a pid_t; directory, no_directory, entry, pruning: a path; command: its
//            words, each with a NUL behind it
enum class GuardKind : std::uint8_t {
  group = 1,         // a process group that ends with the shell; its leader has not been reaped
  left_group = 7,    // its leader has been reaped, other processes of it run
  no_group = 8,      // all its processes have ended: another group may get its number
  directory = 2,     // has to be removed with all that is in it
  no_directory = 3,  // was removed
  detached = 5,      // the shell goes on without its starter; messages go to this file
  entry = 4,         // the job's entry in the list of jobs; "": it needs nothing any more
  command = 6,       // to be run if the shell is killed; no words: none
  pruning = 9,  // the shell ends in order, and the list of jobs in this directory may have entries that are too old
};

// "" if the record is longer than a pipe takes as a whole.
[[nodiscard]] std::string guard_record(GuardKind kind, std::string_view body);

struct GuardDuty {
  int records = -1;   // the end of the pipe to read from
  int starter = -1;   // a stream that hangs up when the process that started the shell goes; -1: there is none
  pid_t shell = 0;    // the parent of this process
  pid_t session = 0;  // the shell's session
  std::string mark;   // NAME=VALUE in the environment of the processes that end with the shell; "": none
  // The start of the line that reports a standstill of the shell; "": another process reports it
  std::string watched;
  std::string socket;         // has to be unlinked; "": none
  std::string socket_folder;  // has to be removed if it is empty; "": none
  const CallPage* calls = nullptr;
};

// Runs in a forked child, with all signals blocked.
[[noreturn]] void run_guard(const GuardDuty& duty);

class Guard : Noncopyable {
 public:
  struct Options {
    const transport::SocketDirectory* socket = nullptr;  // null: there is none
    int starter = -1;                                    // as in GuardDuty; it may be closed after start()
    std::string mark;                                    // as in GuardDuty
    std::string watched;                                 // as in GuardDuty
    bool has_plugins = false;                            // which may have threads of their own by now
  };

  // Has to be called before there are other threads than those of plugins. `children`, which the guard watches
  // over (Children::guard), has to outlive it.
  static Result<std::unique_ptr<Guard>> start(event::Children& children, const Options& options);
  ~Guard();  // ends the guard, which then only does what is left: directories, a command, the list of jobs
  // The job goes on without the process that has started this shell; the guard's messages go to `file`.
  void detached(const std::string& file) { send(GuardKind::detached, file); }
  // May be called once nothing is left to guard: the guard's end then takes less time later.
  void end_early();
  // Sets a command that is run if the shell is killed, and is not waited for; empty: none.
  void set_command(const std::vector<std::string>& words);
  [[nodiscard]] pid_t pid() const { return pid_; }  // 0: it has ended

 private:
  Guard(event::Children& children, UniqueFd to, pid_t pid) : children_(children), to_(std::move(to)), pid_(pid) {}
  void send(GuardKind kind, std::string_view body);
  [[nodiscard]] bool has_rest() const { return !directories_.empty() || has_command_ || !pruning_.empty(); }

  event::Children& children_;
  UniqueFd to_;  // the guard acts when this closes
  pid_t pid_;    // 0: it has ended
  std::set<std::string> directories_;
  bool has_command_ = false;
  std::string pruning_;  // a directory; "": none
};

}  // namespace nacre::join
