// SPDX-License-Identifier: Apache-2.0
//
// fork and exec. Usually the child shares the parent's memory until it execs (vfork(2)), so that the cost does not
// grow with the parent. Only if a hook has to run in the child (`task.exec` plugins), or the child is traced, is it
// a plain fork.
//
// The child performs the ChildSetup, closes all other descriptors (close_range(2)), sets all signal dispositions to
// their default, empties the signal mask, and execs. If a step fails the parent gets an Error, not an exit code.
//
// argv[0] is looked up as by execvp(3), in the cwd of the ChildSetup; a script without "#!" is run by /bin/sh.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "task/command.hpp"

namespace nacre::task {

// Exit codes for a failed start. The code of an Error is the errno of the step that failed.
inline constexpr int kExitNotFound = 127;       // no such command
inline constexpr int kExitNotExecutable = 126;  // it cannot be executed, or another step in the child failed

// The exit code that a shell gives for a failed exec with this errno: 127 for ENOENT and ENOTDIR, else 126.
[[nodiscard]] int exec_failure_code(int error_code);

struct Spawned {
  pid_t pid = 0;
  // With opens_io: its /proc/PID/io, which can be read while it runs and as long as it has not been reaped. None:
  // there is no /proc, or no descriptor was left.
  UniqueFd io = {};
};

// Where the start failed: before there was a child (fork: no pids or memory left), or in the child.
struct SpawnError {
  bool in_child = false;               // true: fork worked; the child has been reaped
  int exit_code = kExitNotExecutable;  // in_child: what a shell would exit with
  // "NAME: No such file or directory"; names the step if that is not exec itself
  Error error;
};

class Spawner {
 public:
  // Runs in a forked child after all else, just before exec; if it returns false the child ends with exit code 126.
  // Its changes count: signals, descriptors, limits, and argv and env of the command. Handlers of SIGSEGV, SIGBUS,
  // SIGILL, SIGFPE and SIGABRT stay set for it. stdout is flushed after it.
  using ChildHook = std::function<bool()>;

  // Starts `command`; without `hook`, by vfork. Several threads may start commands at once, but meanwhile no thread
  // may wait for any child (Children::reap): it would get those that failed to start, and the stops of traced ones.
  // With trace_me the task has executed and is stopped (SIGSTOP), not traced any more, so that a debugger can
  // attach.
  tl::expected<Spawned, SpawnError> spawn(const Command& command, const ChildHook& hook = {}) const;
};

}  // namespace nacre::task
