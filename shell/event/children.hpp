// SPDX-License-Identifier: Apache-2.0
//
// The ends of this process's children, by one SIGCHLD watcher and wait4(2) on any child. The cost depends on the
// children that ended, not on those that run. Any child has to be waited for, as a subreaper adopts processes that
// it never started.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "base/guarded.hpp"
#include "base/unique_fd.hpp"
#include "event/loop.hpp"

namespace nacre::event {

// When children have died, and in which order, by the kernel: wait(2) has several that have died in the order of
// their start. Each has a pidfd in one epoll set, whose list of what is ready is in the order in which it became
// so, even if the list is read late. SIGCHLD's handler looks at once, where times count too.
struct Death {
  Seconds at{};             // by clock_now(): not before it died, and soon after
  std::uint64_t order = 0;  // among those of this process, from 1; 0: not known
};

class Deaths : Noncopyable {
 public:
  static Result<std::unique_ptr<Deaths>> create();
  ~Deaths();

  // For a child that has not been reaped. Does nothing if the system gives no pidfd.
  void expect(pid_t pid);
  // From now on times are exact even if this thread is busy. For one object of a process; SIGCHLD must already have
  // its other handler, which is still called.
  void look_at_signals();

  [[nodiscard]] bool expects(pid_t pid) const { return expected_.contains(pid); }
  [[nodiscard]] bool is_idle() const { return expected_.empty(); }
  // The next of those that have died, in the order of their deaths; none: no other has.
  std::optional<pid_t> next();
  // Its death, once; if that is not known it has died now.
  Death take(pid_t pid);

 private:
  struct Noted {
    pid_t pid;
    Death death;
  };

  explicit Deaths(UniqueFd set) : set_(std::move(set)) {}
  static void on_signal(int signum, siginfo_t* info, void* context);
  void look();
  void take_over();

  const pid_t owner_ = ::getpid();
  UniqueFd set_;  // epoll(7)
  std::map<pid_t, UniqueFd> expected_;
  std::deque<pid_t> untold_;
  std::map<pid_t, Death> known_;

  std::atomic_flag is_in_use_;  // the members below, which the handler also uses
  std::array<Noted, 256> noted_{};
  std::size_t size_ = 0;     // of noted_
  std::uint64_t count_ = 0;  // of all deaths so far
};

struct ChildExit {
  pid_t pid = 0;
  int status = 0;  // as waitpid(2) stores it
  rusage usage{};
  Death death = {};       // by expect_death(); without that, when it was reaped
  bool given_up = false;  // nobody has seen it: see Children::give_up
};

class Children {
 public:
  // The callback may watch and start other children, but not destroy the Children.
  using OnExit = std::function<void(const ChildExit&)>;

  // `on_orphan` gets the ends of children that are not watched: adopted grandchildren.
  static Result<std::unique_ptr<Children>> create(Loop& loop, OnExit on_orphan);

  // Reports the end of `pid` once; Loop::run() goes on while any child is watched. Has to be called before the loop
  // runs again after `pid` was started, so that its end cannot come first.
  void watch(pid_t pid, OnExit on_exit);
  // Children whose deaths are expected are reported in the order of their deaths. `pid` has not been reaped.
  void expect_death(pid_t pid);
  // From now on the times of deaths are exact even if this thread is busy.
  void note_deaths_at_once();
  // The child's end is then reported to `on_orphan`. Does nothing if it is not watched.
  void forget(pid_t pid);
  [[nodiscard]] std::size_t watched() const { return watched_.size(); }
  [[nodiscard]] bool watches(pid_t pid) const { return watched_.contains(pid); }
  [[nodiscard]] std::vector<pid_t> watched_pids() const;
  // For a child that does not end though it was sent SIGKILL: reports now that SIGKILL has ended it. Its real end
  // is later reported to `on_orphan`.
  void give_up(pid_t pid);

  // Calls `look` with each child that has ended, before it is reaped: its files in /proc are still there then.
  // Costs a system call a child; null: none.
  void look_before_reap(std::function<void(pid_t pid)> look) { look_ = std::move(look); }

  // Reports what must not outlive this process, even if that is killed, to the callback that takes care of it, if
  // one is set. `leader` leads a process group: what it starts is in the group, unless it leaves it. Once the
  // leader has been reaped the kernel may give its number to another group, so what then becomes of this one is
  // reported, too.
  void guard(pid_t leader) {
    if (!guarding_.group) return;
    leaders_.insert(leader);
    guarding_.group(leader, GroupState::led);
  }
  // A directory with all that is in it, as an absolute path; `there`: false once it has been removed.
  void guard_directory(const std::string& path, bool there) {
    if (guarding_.directory) guarding_.directory(path, there);
  }
  // The job's entry in the list of jobs, by an absolute path: if this process is killed, it is written there that
  // the job has ended.
  void guard_entry(const std::string& path, bool there) {
    if (guarding_.entry) guarding_.entry(path, there);
  }
  // What is too old in the list of jobs in the directory `path` is removed once this process has ended, by a
  // process that nobody waits for. False: there is no such process.
  [[nodiscard]] bool leave_pruning(const std::string& path) {
    if (guarding_.pruning) guarding_.pruning(path);
    return guarding_.pruning != nullptr;
  }
  enum class GroupState : std::uint8_t {
    led,   // its leader has not been reaped
    left,  // it has been reaped, but not all others of the group have ended
    over,
  };
  struct Guarding {
    std::function<void(pid_t leader, GroupState state)> group;
    std::function<void(const std::string& path, bool there)> entry;
    std::function<void(const std::string& path, bool there)> directory;
    std::function<void(const std::string& path)> pruning;
  };
  void set_guard(Guarding guarding) { guarding_ = std::move(guarding); }
  [[nodiscard]] bool is_guarded() const { return guarding_.group != nullptr; }

  // A process that ends by itself: the job does not end it, wherever it goes.
  void leave_alone(pid_t pid) { left_alone_.insert(pid); }
  [[nodiscard]] const std::set<pid_t>& left_alone() const { return left_alone_; }

  // Reaps now, without waiting for the signal.
  void reap();
  // While such an object lives only watched children are reaped: others may still be waited for by their starter.
  // Children that have ended meanwhile are reaped afterwards, as if SIGCHLD came then.
  class StrangersKept : Noncopyable {
   public:
    explicit StrangersKept(Children& children) : children_(children) { ++children_.keeping_strangers_; }
    ~StrangersKept() { children_.keep_no_more(); }

   private:
    Children& children_;
  };

  // Makes this process adopt orphaned descendants (PR_SET_CHILD_SUBREAPER).
  static Result<void> become_subreaper();
  // The processes below this one that have not ended, children before their parents. From /proc; empty if there is
  // none. It is a snapshot: processes that start, or lose their parent, meanwhile may be missing, so ask again
  // until none are left. The processes `without`, and those below them, are left out.
  static std::vector<pid_t> descendants(const std::set<pid_t>& without = {});
  // Leaves out the watched ones too, and those below them.
  [[nodiscard]] std::vector<pid_t> unwatched_descendants(std::set<pid_t> without = {}) const;

 private:
  explicit Children(OnExit on_orphan) : on_orphan_(std::move(on_orphan)) {}

  void reap_expected();
  void reap_unexpected();
  void keep_no_more();
  bool reap_one(pid_t pid);
  Deaths* deaths();
  void report_group(pid_t leader);
  void report(const ChildExit& end);  // to its watcher

  OnExit on_orphan_;
  std::function<void(pid_t pid)> look_;
  std::unique_ptr<Deaths> deaths_;  // null: none has been expected
  Guarding guarding_;
  std::set<pid_t> left_alone_;
  std::set<pid_t> leaders_;  // of groups that are reported, until they are reaped
  struct Watched {
    OnExit on_exit;
    const Component* component;
  };
  std::unordered_map<pid_t, Watched> watched_;
  std::set<pid_t> unexpected_;  // of these: those whose deaths are not expected
  int keeping_strangers_ = 0;
  bool has_skipped_ = false;  // reap(), while StrangersKept lives
  std::unique_ptr<SignalWatcher> sigchld_;
};

// The descendants of a process, by proc(5).
enum class Lookup {
  listed,  // /proc/PID/task/TID/children: costs by the descendants; not in every kernel (CONFIG_PROC_CHILDREN)
  scan,    // /proc/PID/stat of every process: costs by the processes of the node
};

[[nodiscard]] Lookup best_lookup();

// The processes below `ancestor` that have not ended, children before their parents, except those `without` and the
// ones below them. Zombies are left out, but not a process whose first thread has ended while others run. If this
// process has no descriptor left, a child of it looks.
[[nodiscard]] std::vector<pid_t> descendants_of(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without = {});

}  // namespace nacre::event
