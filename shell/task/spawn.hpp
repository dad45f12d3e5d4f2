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

#include <condition_variable>
#include <mutex>

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
  setting,
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
  int detail = 0;  // limit: the resource; descriptors: the target; setting: its place in Settings
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

// What is the same for all children that this process starts at about the same time. 65 system calls.
struct Parent {
  pid_t pid = 0;
  std::vector<int> changed_signals;  // signals with a handler, and ignored ones

  static Parent now();
};

// What the child does before exec.
struct Plan {
  Plan(const Command& command, const Parent& from);

  void keep(int fd);           // keeps this descriptor open until exec
  void keep_crash_handlers();  // SIGSEGV and the like stay with their handlers until exec

  const ChildSetup& setup;
  pid_t parent;
  std::vector<ChildSetup::Fd> fds;                    // the child changes their sources
  int io_socket = -1;                                 // if set: the child's /proc/self/io goes there (SCM_RIGHTS)
  int max_target = 2;                                 // the highest target, at least that of stderr
  std::vector<std::pair<unsigned, unsigned>> closed;  // descriptors first..last
  std::vector<int> signals;                           // those with a handler, and those ignored
};

// Spawner::spawn(), for several commands.
tl::expected<Spawned, SpawnError> spawn(const Command& command, const Parent& parent,
                                        const Spawner::ChildHook& hook = {});

// Each returns what failed, or Step::none. set_up performs the ChildSetup, except trace_me, in an order in which no
// step hinders a later one: limits come last, as a low RLIMIT_NOFILE would hinder others.
Failure set_up(Plan& plan);
void reset_signals(const Plan& plan);  // dispositions to their default, then an empty mask
Failure trace_me();
Failure execute(Image& image);  // returns only if it failed

// Starts commands side by side. Most of a start is the child's exec, for which its vfork waits: with several
// threads the execs run at once, on several cpus, and the caller does something else meanwhile.
class SpawnPool : Noncopyable {
 public:
  using Outcome = tl::expected<Spawned, SpawnError>;

  // How many threads are worth it: one for each cpu that this process may use, up to kMaxThreads, as each start
  // still takes locks of the whole process.
  static constexpr unsigned kMaxThreads = 8;
  // Up to this many commands the caller starts alone, which takes less time than making and ending a thread.
  static constexpr std::size_t kAlone = 4;
  [[nodiscard]] static unsigned useful_threads();

  // Makes `threads` starts at a time; one of the threads is the caller. The others are made once more than kAlone
  // commands wait, as many as the system allows.
  explicit SpawnPool(unsigned threads);
  // Ends the threads. To the kernel a child's parent is a thread, so a child that asked for a signal at its
  // parent's death (PR_SET_PDEATHSIG) gets it then: the pool has to outlive the children. No start is under way.
  ~SpawnPool();

  // When a start began, and when it was over: its program had begun, or it had failed.
  struct Times {
    event::Seconds begun{}, over{};
  };
  struct Over {
    const Command* command;
    Outcome outcome;
    Times times{};
  };

  // Starts `command` as Spawner::spawn does without a hook. The command must not change until it has been taken,
  // and until then no thread may wait for any other child than those taken: it would get those that failed to
  // start.
  void begin(const Command& command);
  [[nodiscard]] std::size_t under_way() const { return under_way_; }  // begun, and not taken
  // The starts that are over, in the order in which they were begun: their programs have begun, or they have
  // failed. A start that is over waits for those before it.
  [[nodiscard]] std::vector<Over> take();
  // Returns once take() has a start, or when the caller has made one that no other thread has begun. Does nothing
  // if all have been taken.
  void work();
  // To be called when this process's signal handlers have changed: begin() by itself looks at them only now and
  // then.
  void look_at_signals() { looked_ = 0; }
  // Also reads times, by two calls for each start.
  void note_times(bool are_wanted) { are_times_wanted_ = are_wanted; }

 private:
  struct Item {
    const Command* command;
    std::shared_ptr<const Parent> parent;
    std::optional<Outcome> outcome = {};  // none: it is not over
    Times times = {};
  };

  static void* serve(void* pool);
  [[nodiscard]] bool has_waiting() const { return next_ < items_.size(); }
  void start_next(std::unique_lock<std::mutex>& lock);
  void make_threads();
  void serve();

  unsigned wanted_;  // threads besides the caller's
  std::vector<pthread_t> threads_;
  std::size_t under_way_ = 0;
  std::shared_ptr<const Parent> parent_;
  std::size_t looked_ = 0;  // how many may begin until the signals are looked at again
  bool are_times_wanted_ = false;
  std::mutex mutex_;  // protects all below
  std::condition_variable changed_, over_changed_;
  std::deque<Item> items_;  // those under way
  std::size_t next_ = 0;    // of these: the first that no thread has begun with
  std::size_t idle_ = 0;    // threads that wait for commands
  bool ending_ = false;
};

}  // namespace nacre::task
