// SPDX-License-Identifier: Apache-2.0
//
// The made-up kernel under the shells of a simulated job: processes, signals, time, which of them runs. Each shell
// is a fiber of this one thread, and loses the processor only where the real one could wait: in epoll_wait, poll, a
// blocking read or write, wait, sleep. What runs next, what is ready in which order, and how long that takes are
// drawn from the seed. Time is virtual: if nothing is ready it moves to what is due next.
//
// Real: the whole of nacre-shell, its main() and libuv included; what the child does between vfork and exec;
// descriptors (pipes, Unix sockets, epoll sets, files), in one table, in which each process knows its own, and 0 to
// 2 are exchanged whenever another shell runs; /proc and /sys, where no made-up process is found.
// Made up: time, random bytes, pids, groups and sessions, signals, wait, exec, environments, working directories,
// limits, one host with its name. Tasks and hooks are scripts; what they say to PMI goes through the client engine.
// Not simulated: what a process does that is forked without exec (the guard: a killed shell's files stay), threads
// (one runs when it is joined), TCP and TLS, terminals, processes that tasks start, whether memory or disk is full.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <ucontext.h>

#include "pmi/client.hpp"
#include "random.hpp"
#include "shells/image.hpp"
#include "shells/task_script.hpp"

namespace nacre::shells {

using sim::Random;
using Nanoseconds = std::int64_t;  // of virtual time
inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1'000'000'000;
inline constexpr Nanoseconds kMinute = 60 * kSecond;
inline constexpr Nanoseconds kNever = INT64_MAX;
// Descriptors of processes that vfork has made begin here, and the simulator's own, so that those of the shells are
// the same in each run.
inline constexpr int kNewbornDescriptors = 12000, kOwnDescriptors = 13000;

// Something that must not be. Thrown by the simulator itself, never through a shell's frames.
struct Defect {
  std::string what;
};

enum class ProcessKind : std::uint8_t {
  shell,  // nacre-shell: its own code, on a fiber
  task,   // a script of the seed
  aide,   // forked by a shell without exec, such as its guard: it only waits for its end
};

// What a shell that does not run waits for.
struct Wait {
  Nanoseconds until = kNever;
  int epoll = -1;
  std::vector<pollfd> fds;
  bool for_child = false;
};

// Of a process of kind shell.
struct Fiber {
  static constexpr std::size_t kStack = std::size_t{8} << 20;

  ucontext_t context{};
  std::unique_ptr<char, void (*)(char*)> stack{nullptr, nullptr};
  Image* image = nullptr;
  std::string arguments;  // each with its NUL, side by side as the real kernel has them
  std::vector<char*> argv;
  std::optional<Wait> wait;           // none: it is ready
  std::vector<epoll_event> ready;     // the result of the wait
  void* fake_stack = nullptr;         // the sanitizer's
  std::array<char, 16> exceptions{};  // what the C++ runtime keeps for a thread

  std::map<std::string, std::string> environment;
  std::vector<std::string> block;
  std::vector<char*> pointers;
  std::array<struct sigaction, NSIG> actions{};
  std::uint64_t blocked = 0, pending = 0;  // signals, by bit_of()
  std::vector<std::function<void(int status)>> at_exit;
  std::vector<pthread_key_t> keys;  // the real ones are few
  int directory = -1;
  mode_t umask = 022;
  int death_signal = 0;
  int last_pipe = -1;                     // the end to read of the pipe made last
  std::map<int, Nanoseconds> held_until;  // until when a ready descriptor is not known to be ready
  std::map<int, pid_t> peers;             // of a connection: the shell at its other end
};

// The client's side of PMI-1 of a task.
struct PmiRun {
  int fd = -1;
  ::nacre::pmi::ClientSession session;
  bool waits = false, can_read = false;  // for an answer; it has come
  std::uint32_t entered = 0, left = 0;   // barriers
  bool is_over = false;                  // finalized, or the shell has gone
};

struct TaskRun {
  TaskScript script;
  std::size_t next = 0;     // of its acts
  std::size_t written = 0;  // bytes of that act
  Nanoseconds due = 0;
  bool is_full = false;       // the pipe that it writes to
  bool ended_itself = false;  // by its script, perhaps by the part for SIGTERM
  std::optional<std::uint32_t> rank;
  std::array<std::string, 3> wrote;  // to 1 and 2
  std::map<int, int> others;         // further descriptors that it has inherited, by its own numbers
  PmiRun pmi;
  bool is_left = false;  // a process that a task has left behind
};

struct Process {
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  ProcessKind kind = ProcessKind::aide;
  std::string name;
  std::array<int, 3> streams{-1, -1, -1};  // the kernel's own copies
  std::map<int, const char*> fds;          // of a shell: its descriptors from 3 on, and the calls that made them
  bool is_over = false, is_reaped = false;
  int status = 0;
  Nanoseconds stopped_until = 0;  // kNever: until SIGCONT
  std::string host;               // for the trace
  bool is_named = false;          // by its rank
  pid_t started_by = 0;           // a shell
  Nanoseconds started_at = 0;
  // When a shell sent SIGTERM, SIGKILL to it, or to what it has been, first; kNever: none did.
  Nanoseconds asked_at = kNever, killed_at = kNever;
  int death_signal = 0;       // as PR_SET_PDEATHSIG
  std::vector<int> watchers;  // the ends of pidfds
  Nanoseconds ended_at = 0;
  std::string error;                   // of a shell: why it has called abort
  std::vector<std::string> left_open;  // of a shell that has ended by itself
  std::unique_ptr<Fiber> fiber;
  std::unique_ptr<TaskRun> task;
};

// The parts of a process that vfork has made, until it executes a program or ends.
struct Newborn {
  std::map<int, int> fds;  // its own numbers, and the real ones
  std::set<std::pair<unsigned, unsigned>> closed;
  pid_t pid = 0, group = 0, session = 0;
  int death_signal = 0;
};

class Kernel {
 public:
  struct Options {
    std::uint64_t seed = 1;
    bool traces = false;
    std::string program;         // the path of nacre-shell; nothing is read from it
    std::string task;            // the path of the tasks' program, which is not read either
    Nanoseconds most_delay = 0;  // until a shell sees that one of its sockets is ready
    Nanoseconds most_pause = 0;  // between two turns of a shell
    bool overlaps = false;       // tasks also go on while a shell looks which of them have ended
    std::function<std::string(std::uint32_t rank)> host_of;  // of a shell
  };

  explicit Kernel(Options options);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  static Kernel& get();
  static bool is_running();  // whether a shell's code runs now

  // Starts a shell; takes copies of the descriptors.
  pid_t start_shell(std::vector<std::string> argv, std::map<std::string, std::string> environment,
                    std::array<int, 3> streams);
  // Lets a process go on that can, or handles what is due. False: nothing is left to do before `until`, a time of
  // now().
  bool step(Nanoseconds until);
  // What the task of this rank does when a shell starts it; UINT32_MAX: a program that is no task.
  std::function<TaskScript(std::uint32_t rank)> script_of;
  std::function<void()> on_step;  // called after each turn of a process
  // Called as a process has ended, and as a task enters (`left` is false) or leaves a barrier of PMI.
  std::function<void(const Process&)> on_end;
  std::function<void(const Process&, bool left)> on_barrier;

  [[nodiscard]] Nanoseconds now() const { return now_; }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  [[nodiscard]] const std::map<pid_t, std::unique_ptr<Process>>& processes() const { return processes_; }
  [[nodiscard]] Process* find(pid_t pid);
  Random& random() { return random_; }
  [[nodiscard]] const std::string& program() const { return options_.program; }
  void note(const std::string& who, const std::string& what);
  void note(const Process& who, const std::string& what);
  void named(Process& shell, std::uint32_t rank);  // the shell's rank is known now
  [[nodiscard]] const std::string& trace() const { return trace_; }
  [[nodiscard]] std::uint64_t digest() const { return digest_; }  // of all that was noted

  // Faults.
  void kill_from_outside(Process& process, int signum);
  void stop(Process& process, Nanoseconds length);
  bool cut_link(Process& process);  // false: it has none
  // For `length` nothing passes between these shells, with those that they start, and the others; no connection
  // breaks.
  void divide(std::set<pid_t> side, Nanoseconds length);

  // ---- what the calls of a shell do (calls.cpp) ----
  Process& current() { return *current_; }
  Fiber& fiber() { return *current_->fiber; }
  // Waits; true: a handler of a signal has run, or one of a signal is about to.
  bool wait(Wait what);
  void handle_signals();
  int send_signal(pid_t to, int signum);  // 0 or an errno
  [[noreturn]] void end_current(int status);
  void adopt(int fd, const char* call);
  void release(int fd);      // the descriptor has been closed
  void took_stream(int fd);  // one of 0 to 2 has been replaced
  void listens(const std::string& path);
  void connected(int fd, const std::string& path);                    // by the current shell
  void accepted(int fd, const std::string& path);                     // by the current shell, which listens there
  [[nodiscard]] bool is_apart(const Process& process, int fd) const;  // whether its other end is on the other side
                                                                      // of a division
  [[nodiscard]] bool is_apart(const std::string& path) const;  // whether the listener there is on the other side
  pid_t fork_aide();
  void end_aide(pid_t pid);  // an aide for which its shell only waits ends with 0
  pid_t new_pid() { return next_pid_++; }
  int open_pidfd(pid_t pid);
  // 0, or an errno with which execve(2) fails; in that case the process of vfork goes on.
  int execute(const std::string& path, char* const* argv, char* const* environment);
  // Lets tasks go on as on other processors, if they are to overlap.
  void let_tasks_go_on();
  void end_newborn(int status);
  pid_t newborn_over();  // its pid
  std::optional<Newborn>& newborn() { return newborn_; }
  int real_fd(int fd) const;  // -1: there is no such descriptor
  Nanoseconds tick();         // called when the clock is read

 private:
  void run(Process& process);
  static void begin();
  int fiber_directory();
  void enter(Process& process);
  void leave(Process& process);
  void finish(Process& process, int status);
  void close_all(Process& process);
  void tell_parent(Process& process);
  void orphan(Process& process);
  [[nodiscard]] bool is_runnable(Process& process);
  bool look_at_epoll(Process& process);
  [[nodiscard]] bool has_signal(const Process& process) const;
  void act(Process& task);
  bool write_some(Process& task, const TaskAct& each);
  void write_last_words(Process& task);
  void leave_process(Process& task);
  bool ask_pmi(Process& task, TaskAct::Kind what);
  void send_pmi(Process& task, TaskAct::Kind what);
  void deliver(Process& to, int signum);
  void signal_task(Process& task, int signum);
  [[nodiscard]] bool are_apart(pid_t one, pid_t other) const;
  [[nodiscard]] Nanoseconds next_due();
  void poll_waits();

  Options options_;
  Random random_;
  Nanoseconds now_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t idle_calls_ = 0;
  std::map<pid_t, std::unique_ptr<Process>> processes_;
  std::set<pid_t> polled_;  // shells that wait, and for which something is ready
  Process* current_ = nullptr;
  Process* entered_ = nullptr;  // the process whose streams and directory are in place
  ucontext_t scheduler_{};
  void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_size_ = 0;
  void* scheduler_fake_ = nullptr;
  std::array<char, 16> scheduler_exceptions_{};
  pid_t next_pid_ = 5'000'001;  // above those of any kernel: /proc has none of them
  std::optional<Newborn> newborn_;
  struct Listener {
    pid_t owner = 0;
    std::deque<pid_t> callers;  // not accepted yet
  };
  std::map<std::string, Listener> listeners_;  // by path
  std::set<pid_t> side_;                       // shells
  Nanoseconds divided_until_ = 0;
  int shells_ = 0;
  int own_directory_ = -1;
  std::array<int, 3> own_streams_{-1, -1, -1};
  std::string trace_;
  std::uint64_t digest_ = 14695981039346656037U;
};

[[noreturn]] void exit_current(int code);  // as exit(3) of the shell that runs
constexpr std::uint64_t bit_of(int signum) { return std::uint64_t{1} << (signum - 1); }
std::uint64_t bits_of(const sigset_t& set);
void publish_environment(Fiber& fiber);  // the fiber's variables have changed

}  // namespace nacre::shells
