// SPDX-License-Identifier: Apache-2.0
#include "event/children.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/guarded.hpp"
#include "event/clock.hpp"
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

Deaths* Children::deaths() {
  if (deaths_ == nullptr) {
    auto made = Deaths::create();
    if (made) deaths_ = *std::move(made);
  }
  return deaths_.get();
}

// Without it their ends are reported as wait4(2) has them.
void Children::expect_death(pid_t pid) {
  if (Deaths* all = deaths()) all->expect(pid);
}

void Children::note_deaths_at_once() {
  if (Deaths* all = deaths()) all->look_at_signals();
}

void Children::reap() {
  for (;;) {
    reap_expected();
    pid_t which = -1;
    bool are_expected = deaths_ && !deaths_->is_idle();
    if (are_expected || look_) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) return;
      which = info.si_pid;
      // Others may have died before it meanwhile.
      if (are_expected && deaths_->expects(which)) reap_expected();
    }
    if (!reap_one(which)) return;
  }
}

// A callback may reap, too.
void Children::reap_expected() {
  if (!deaths_) return;
  while (auto pid = deaths_->next()) reap_one(*pid);
}

// -1: any. False: there is nothing to reap any more, or somebody else has done so.
bool Children::reap_one(pid_t pid) {
  if (look_ && pid > 0) look_(pid);
  ChildExit end;
  end.pid = ::wait4(pid, &end.status, WNOHANG, &end.usage);
  if (end.pid <= 0) return pid > 0;
  if (!WIFEXITED(end.status) && !WIFSIGNALED(end.status)) return true;  // a traced child has stopped
  end.death = deaths_ ? deaths_->take(end.pid) : Death{clock_now(), 0};
  report_group(end.pid);
  if (watches(end.pid))
    report(end);
  else if (on_orphan_)
    on_orphan_(end);
  return true;
}

void Children::report(const ChildExit& end) {
  const Watched watched = std::move(watched_.at(end.pid));
  forget(end.pid);
  guarded(watched.component, [&] { watched.on_exit(end); });
}

void Children::give_up(pid_t pid) {
  if (watches(pid)) report({pid, SIGKILL, {}, {clock_now(), 0}, true});
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
