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

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"
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

// How a start failed: as numbers, which the child can pass on, and as text.

inline constexpr std::string_view kDefaultPath = "/bin:/usr/bin";  // of execvp(3), where PATH is not set

enum class Step {
  none,
  session,
  process_group,
  oom,
  scheduler,
  affinity,
  memory,
  container,
  directory,
  descriptors,
  terminal,
  limit,
  hook,
  trace,
  exec
};

// The step that failed in the child. Small enough for one atomic write to a pipe.
struct Failure {
  Step step = Step::none;
  int code = 0;    // errno
  int detail = 0;  // limit: the resource; descriptors: the target
};

// "cannot set RLIMIT_NOFILE: Operation not permitted"; for exec itself "NAME: No such file or directory", with the
// folders of PATH in which it was looked for, and with the sizes if arguments and environment are too long. The
// code is the failure's.
[[nodiscard]] Error describe(const Command& command, const Failure& failure);

// There is no child, as fork failed with `code`. For EAGAIN the text names the limits that may be the reason.
[[nodiscard]] Error fork_error(int code);

// The child's side of a start: the parent prepares it, and the child executes it by system calls alone. Between
// vfork and exec the child runs on its parent's memory, so nothing here that takes a Plan or an Image allocates,
// locks or throws.

// The arguments of execve(2). Points into the command, and is not valid once that changes.
struct Image {
  explicit Image(const Command& command);  // argv is not empty

  std::vector<const char*> argv;         // ends with nullptr
  std::vector<const char*> script_argv;  // {"/bin/sh", <the file>, argv[1], ...}, for a script without "#!"
  std::vector<const char*> env;          // ends with nullptr
  std::vector<std::string> candidates;   // the paths to try in order, as execvp(3) would
};

// The signals of this process that have a handler or are ignored. 64 system calls.
[[nodiscard]] std::vector<int> changed_signals();

// What the child does before exec.
struct Plan {
  // `changed`: changed_signals(), of now.
  Plan(const Command& command, std::vector<int> changed);

  void keep(int fd);           // leaves this descriptor open until exec
  void keep_crash_handlers();  // SIGSEGV and the like stay with their handlers until exec

  const ChildSetup& setup;
  pid_t parent;
  std::vector<ChildSetup::Fd> fds;                    // the child changes their sources
  int io_socket = -1;                                 // if set: the child's /proc/self/io goes there (SCM_RIGHTS)
  int max_target = 2;                                 // the highest target, at least that of stderr
  std::vector<std::pair<unsigned, unsigned>> closed;  // descriptors first..last
  unsigned descriptor_limit = 0;                      // for kernels without close_range(2)
  std::vector<int> signals;                           // those with a handler, and those ignored
};

// Spawner::spawn(), for several commands: what `changed` has is read once for all.
tl::expected<Spawned, SpawnError> spawn(const Command& command, const std::vector<int>& changed,
                                        const Spawner::ChildHook& hook = {});

// Each returns what failed, or Step::none. set_up performs the ChildSetup, except trace_me, in an order in which no
// step hinders a later one: limits come last, as a low RLIMIT_NOFILE would hinder others.
Failure set_up(Plan& plan);
void reset_signals(const Plan& plan);  // dispositions to their default, then an empty mask
Failure trace_me();
Failure execute(Image& image);  // returns only if it failed

// Sets this process's own OOM score, as text for /proc/self/oom_score_adj. Returns 0 or an errno.
int set_oom_score(const std::string& text);

// Starts many commands at once. Most of a start is the child's exec, for which its vfork waits: with several
// threads the execs run side by side, on several cpus.
class SpawnPool {
 public:
  using Outcome = tl::expected<Spawned, SpawnError>;

  // How many threads are worth it: one for each cpu that this process may use, up to kMaxThreads, as each start
  // still takes locks of the whole process.
  static constexpr unsigned kMaxThreads = 8;
  // Up to so many commands the caller starts alone: that takes less time than to make a thread and to end it.
  static constexpr std::size_t kAlone = 4;
  [[nodiscard]] static unsigned useful_threads();

  // Makes `threads` starts at a time; one of the threads is the caller. The others are made with the first batch of
  // more than kAlone commands, as many as the system allows.
  explicit SpawnPool(unsigned threads);
  // Ends the threads. To the kernel a child's parent is a thread, so a child that asked for a signal at its
  // parent's death (PR_SET_PDEATHSIG) gets it then: the pool has to outlive the children.
  ~SpawnPool();
  SpawnPool(const SpawnPool&) = delete;
  SpawnPool& operator=(const SpawnPool&) = delete;

  // When a start began, and when it was over: its program had begun, or it had failed.
  struct Times {
    event::Seconds begun{}, over{};
  };

  // Starts each command as Spawner::spawn does without a hook; the outcomes have the order of the commands. Returns
  // when all have executed or failed. Here too no thread may wait for any child meanwhile.
  // `times`: of each, or empty: they are not wanted.
  [[nodiscard]] std::vector<Outcome> spawn(std::span<const Command* const> commands, std::span<Times> times = {});

 private:
  struct Batch {
    std::span<const Command* const> commands;
    std::vector<Outcome> outcomes;
    std::span<Times> times;
    std::vector<int> changed_signals;
    std::atomic<std::size_t> next{0};  // the first command that no thread has taken
  };

  static void* serve(void* pool);
  static void work(Batch& batch);
  void make_threads();
  void wait_for_batches();

  unsigned wanted_;  // threads besides the caller's
  std::vector<pthread_t> threads_;
  std::mutex mutex_;  // protects all below
  std::condition_variable changed_;
  Batch* batch_ = nullptr;   // the current one; null: none
  std::size_t batches_ = 0;  // so far
  std::size_t busy_ = 0;     // threads that still work on batch_
  bool ending_ = false;
};

}  // namespace nacre::task
