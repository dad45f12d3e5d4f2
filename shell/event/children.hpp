// SPDX-License-Identifier: Apache-2.0
//
// The ends of this process's children. One SIGCHLD watcher and wait4(2) on any child: cost by the children that
// ended, not by those that run; needed, as a subreaper adopts processes that it never started.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "event/loop.hpp"

namespace nacre::event {

struct ChildExit {
  pid_t pid = 0;
  int status = 0;  // as waitpid(2) stores it
  rusage usage{};
};

class Children {
 public:
  // May watch and start others, but not destroy the Children.
  using OnExit = std::function<void(const ChildExit&)>;

  // `on_orphan` gets the ends of children that nobody watches: adopted grandchildren.
  static Result<std::unique_ptr<Children>> create(Loop& loop, OnExit on_orphan);

  // Reports the end of `pid` once; Loop::run() goes on for as long as one is watched. To be called before the loop
  // runs again after `pid` was started, so that its end cannot come first.
  void watch(pid_t pid, OnExit on_exit);
  // Its end becomes that of an orphan. Nothing, if it is not watched.
  void forget(pid_t pid);
  [[nodiscard]] std::size_t watched() const { return watched_.size(); }

  // What is not to outlive this process, even if that is killed: told to whoever sees to it, if there is anybody. What the leader
  // of a process group starts belongs to the group, unless it leaves it.
  void guard(pid_t leader) {
    if (guarding_.group) guarding_.group(leader);
  }
  // A directory with all that is in it, by an absolute path; `there`: false once it has been removed.
  void guard_directory(const std::string& path, bool there) {
    if (guarding_.directory) guarding_.directory(path, there);
  }
  struct Guarding {
    std::function<void(pid_t leader)> group;
    std::function<void(const std::string& path, bool there)> directory;
  };
  void set_guard(Guarding guarding) { guarding_ = std::move(guarding); }
  [[nodiscard]] bool is_guarded() const { return guarding_.group != nullptr; }

  // Reaps now, without waiting for the signal.
  void reap();

  // Makes this process adopt orphaned descendants (PR_SET_CHILD_SUBREAPER).
  static Result<void> become_subreaper();
  // The processes below this one that have not ended, children before their parents. From /proc; empty if that is
  // not there. A snapshot: what starts, or loses its parent, meanwhile may be missing, so ask again until none are
  // left. Those `without`, and what is below them, are not among them.
  static std::vector<pid_t> descendants(const std::set<pid_t>& without = {});
  // Those that are watched, and what is below them, are not among them either.
  [[nodiscard]] std::vector<pid_t> unwatched_descendants(std::set<pid_t> without = {}) const;

 private:
  explicit Children(OnExit on_orphan) : on_orphan_(std::move(on_orphan)) {}

  OnExit on_orphan_;
  Guarding guarding_;
  std::unordered_map<pid_t, OnExit> watched_;
  std::unique_ptr<SignalWatcher> sigchld_;
};

}  // namespace nacre::event
