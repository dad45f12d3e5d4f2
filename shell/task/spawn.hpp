// SPDX-License-Identifier: Apache-2.0
//
// fork and exec. In the usual case the child shares the parent's memory until it execs (vfork(2)), so that the cost
// does not grow with the parent; only where a hook must run in the child (`task.exec` plugins), or the child is
// traced, it is a plain fork.
//
// In the child: the ChildSetup carried out, all other descriptors closed (close_range(2)), all signal dispositions
// default, signal mask emptied, exec. What fails there comes back as an Error in the parent, not as an exit code.
//
// argv[0] is found as execvp(3) does, in the cwd of the ChildSetup; a script without "#!" is run by /bin/sh.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/result.hpp"
#include "task/command.hpp"

namespace nacre::task {

// How a start failed. The code of Error is the errno of the step that failed.
inline constexpr int kExitNotFound = 127;       // no such command
inline constexpr int kExitNotExecutable = 126;  // there, but it cannot be executed; any other failure in the child

// The exit code that a shell gives for a failed exec with this errno: 127 for ENOENT and ENOTDIR, else 126.
[[nodiscard]] int exec_failure_code(int error_code);

struct Spawned {
  pid_t pid = 0;
};

// Where in the start it went wrong: before there was a child (fork: pids or memory ran out), or in the child.
struct SpawnError {
  bool in_child = false;               // true: fork worked; the child has been reaped
  int exit_code = kExitNotExecutable;  // in_child: what a shell would exit with
  Error error;                         // "NAME: No such file or directory"; names the step if it is not exec itself
};

class Spawner {
 public:
  // Runs in a forked child after all else, just before exec; a false return ends the child with exit code 126. What
  // it changes counts: signals, descriptors, limits, and argv and env of the command. Handlers of SIGSEGV, SIGBUS,
  // SIGILL, SIGFPE and SIGABRT stay in place for it. stdout is flushed after it.
  using ChildHook = std::function<bool()>;

  // Starts `command`. `hook` empty: vfork. Several threads may start commands at once, but meanwhile none may wait
  // for any child (Children::reap): it would take those that failed to start, and the stops of traced ones. With
  // trace_me the task has executed and stands stopped (SIGSTOP), traced by nobody, for a debugger to attach.
  tl::expected<Spawned, SpawnError> spawn(const Command& command, const ChildHook& hook = {}) const;
};

}  // namespace nacre::task
