// SPDX-License-Identifier: Apache-2.0
//
// Ends processes: SIGTERM, a grace, SIGKILL.
#pragma once

#include <sys/types.h>

#include "event/children.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

// Ends the tasks: calls `kill_tasks` with SIGTERM at once, and with SIGKILL after the grace.
class Shutdown {
 public:
  static Result<Shutdown> create(event::Loop& loop, event::Seconds grace,
                                 std::function<void(int signum)> kill_tasks);
  // Works once; later calls do nothing, and return false. `signum` is the first signal; `grace` replaces the usual
  // one.
  bool begin(int signum, std::optional<event::Seconds> grace);

 private:
  Shutdown(event::Timer timer, event::Seconds grace, std::function<void(int)> kill_tasks)
      : timer_(std::move(timer)), grace_(grace), kill_tasks_(std::move(kill_tasks)) {}

  event::Timer timer_;
  event::Seconds grace_;
  std::function<void(int)> kill_tasks_;
  bool begun_ = false;
};

// The processes that outlive the tasks that started them. The shell is a subreaper and becomes their parent, so
// none escapes by forking twice.
class Stragglers {
 public:
  // Children that this process already has are none of the job's.
  Stragglers();

  // Another shell of the job on this host also becomes a child of this one when its own starter goes. It is no
  // straggler, and neither are its descendants. `mark`: NAME=VALUE that is in the environment of all processes that
  // this shell has started.
  void exempt_shells(std::string mark) { mark_ = std::move(mark); }

  void exempt(pid_t child) { before_.insert(child); }  // this process is none of the job's either

  enum class Which { of_tasks, all };  // `all`: also those that are watched, which plugins have started

  // Runs `loop` until they are gone: SIGTERM, `grace`, SIGKILL. Warns of each one that survives, reports them to
  // plugins (Unkillable::announce), and does not look for them again. Costs one system call if there are none.
  // `found`, if it is set, is called first, with all that are there.
  Result<void> end(Which which, plugin::Host& host, event::Seconds grace,
                   const std::function<void(const std::vector<pid_t>&)>& found = {});

  // {"pid", "name", "rank"} of each, the rank if its environment has one. Those in the process groups `but` are
  // left out.
  static Json facts_of(const std::vector<pid_t>& pids, const std::set<pid_t>& but);

 private:
  [[nodiscard]] std::vector<pid_t> left(Which which, const event::Children& children) const;
  [[nodiscard]] bool all_gone(const std::vector<pid_t>& pids, Which which, const event::Children& children) const;
  [[nodiscard]] bool is_other_shell(pid_t pid) const;

  std::set<pid_t> before_;
  std::string mark_;
};

// Processes that do not end though they were sent SIGKILL: a wait in the kernel, as for a file system that does not
// answer, ends by nothing that a shell can do. They are named after kKillTime, and after the time of the option
// unkillable-timeout nobody waits for them any more: tasks count as lost, and the job ends.

inline constexpr event::Seconds kKillTime{2.0};  // how long SIGKILL may take before a survivor is reported

// Where the kernel keeps a process: its first thread in state D or, if there is none, its first thread.
struct KernelWait {
  char state = '?';   // as in proc(5)
  std::string where;  // the function of the kernel in which it waits; "": in none, or unknown
  std::string path;   // of the file that its system call is about; "": of none, or unknown

  // `root`: the folder that proc is in. Touches no file but those of proc.
  static KernelWait of(pid_t pid, const std::string& root = "");
  [[nodiscard]] std::string str() const;  // "state D in request_wait_answer, /mnt/data"
};

// Whether a thread of it has yet to take a SIGKILL.
[[nodiscard]] bool is_killed(pid_t pid, const std::string& root = "");

// The option unkillable-timeout.
[[nodiscard]] Result<value::Duration> unkillable_timeout(const job::Options& options);

class Unkillable : Noncopyable {
 public:
  explicit Unkillable(plugin::Host& host) : host_(host) {}  // `host` has to outlive it

  // This shell has sent SIGKILL to a child that is watched.
  void killed(pid_t pid);
  // From now on all children that are watched are looked at, whoever sends them SIGKILL.
  void look_at_all();
  // Calls `receive` with each process that is given up, before its end is reported (event::Children::give_up).
  void when_given_up(std::function<void(pid_t)> receive) { on_given_up_ = std::move(receive); }

  // Tells plugins which processes survive, by the topic shell.unkillable.
  static void announce(plugin::Host& host, const std::vector<pid_t>& pids);

 private:
  struct Waiting {
    pid_t pid = 0;
    event::Seconds age{};  // since its SIGKILL, in whole looks
    bool is_told = false;
  };

  void add(pid_t pid, event::Seconds age);
  void start();
  void look();
  void give_up(const std::vector<pid_t>& pids);

  plugin::Host& host_;
  std::optional<event::Timer> timer_;
  bool is_started_ = false, looks_at_all_ = false;
  event::Seconds each_{};  // between looks
  value::Duration timeout_ = value::Duration::infinite();
  std::vector<Waiting> waiting_;
  std::function<void(pid_t)> on_given_up_;
};

}  // namespace nacre::core
