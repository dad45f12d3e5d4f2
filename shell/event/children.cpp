// SPDX-License-Identifier: Apache-2.0
#include "event/children.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/guarded.hpp"
#include "event/process_tree.hpp"

namespace nacre::event {

Result<std::unique_ptr<Children>> Children::create(Loop& loop, OnExit on_orphan) {
  std::unique_ptr<Children> children(new Children(std::move(on_orphan)));
  auto watcher = TRY(SignalWatcher::create(loop, SIGCHLD, [raw = children.get()](int) { raw->reap(); }));
  watcher.keeps_running(false);
  children->sigchld_ = std::make_unique<SignalWatcher>(std::move(watcher));
  return children;
}

void Children::watch(pid_t pid, OnExit on_exit) {
  watched_[pid] = {std::move(on_exit), InComponent::current()};
  sigchld_->keeps_running(true);
}

void Children::forget(pid_t pid) {
  watched_.erase(pid);
  sigchld_->keeps_running(!watched_.empty());
}

void Children::reap() {
  for (;;) {
    pid_t which = -1;
    if (look_ && !looked_at_next(which)) return;
    ChildExit end;
    end.pid = ::wait4(which, &end.status, WNOHANG, &end.usage);
    if (end.pid <= 0) return;
    if (!WIFEXITED(end.status) && !WIFSIGNALED(end.status)) continue;  // a traced child has stopped
    report_group(end.pid);
    if (!watches(end.pid)) {
      if (on_orphan_) on_orphan_(end);
      continue;
    }
    report(end);
  }
}

void Children::report(const ChildExit& end) {
  const Watched watched = std::move(watched_.at(end.pid));
  forget(end.pid);
  guarded(watched.component, [&] { watched.on_exit(end); });
}

void Children::give_up(pid_t pid) {
  if (watches(pid)) report({pid, SIGKILL, {}, true});
}

std::vector<pid_t> Children::watched_pids() const {
  std::vector<pid_t> out;
  for (const auto& [pid, watched] : watched_) out.push_back(pid);
  return out;
}

void Children::report_group(pid_t leader) {
  if (leaders_.erase(leader) == 0 || !guarding_.group) return;
  bool is_over = ::kill(-leader, 0) < 0 && errno == ESRCH;
  guarding_.group(leader, is_over ? GroupState::over : GroupState::left);
}

bool Children::looked_at_next(pid_t& pid) const {
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) return false;
  pid = info.si_pid;
  look_(pid);
  return true;
}

Result<void> Children::become_subreaper() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) return system_error(errno, "cannot become a subreaper");
  return {};
}

std::vector<pid_t> Children::descendants(const std::set<pid_t>& without) {
  return descendants_of(::getpid(), best_lookup(), without);
}

std::vector<pid_t> Children::unwatched_descendants(std::set<pid_t> without) const {
  for (const auto& [child, watched] : watched_) without.insert(child);
  return descendants(without);
}

}  // namespace nacre::event
