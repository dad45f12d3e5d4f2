// SPDX-License-Identifier: Apache-2.0
#include "event/children.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"

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
  if (!deaths_ || !deaths_->expects(pid)) unexpected_.insert(pid);
  sigchld_->keeps_running(true);
}

void Children::forget(pid_t pid) {
  watched_.erase(pid);
  unexpected_.erase(pid);
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
    if (keeping_strangers_ > 0) return reap_unexpected();
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

void Children::keep_no_more() {
  if (--keeping_strangers_ == 0 && std::exchange(has_skipped_, false)) ::kill(::getpid(), SIGCHLD);
}

// A callback may watch others, and forget some.
void Children::reap_unexpected() {
  has_skipped_ = true;
  for (pid_t pid : std::vector(unexpected_.begin(), unexpected_.end())) {
    siginfo_t info{};
    const bool is_over = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (is_over && info.si_pid == pid && unexpected_.contains(pid)) reap_one(pid);
  }
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

// ---- deaths -----------------------------------------------------------------------------

namespace {

std::atomic<Deaths*> at_signals{nullptr};
struct sigaction next_action {};

}  // namespace

Result<std::unique_ptr<Deaths>> Deaths::create() {
  UniqueFd set(::epoll_create1(EPOLL_CLOEXEC));
  if (!set) return system_error(errno, "epoll_create1");
  return std::unique_ptr<Deaths>(new Deaths(std::move(set)));
}

Deaths::~Deaths() {
  Deaths* own = this;
  if (!at_signals.compare_exchange_strong(own, nullptr)) return;
  struct sigaction now {};
  bool is_ours = ::sigaction(SIGCHLD, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
                 now.sa_sigaction == &Deaths::on_signal;
  if (is_ours) ::sigaction(SIGCHLD, &next_action, nullptr);
  while (is_in_use_.test_and_set(std::memory_order_acquire)) ::sched_yield();  // by a handler in another thread
}

void Deaths::expect(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = static_cast<std::uint64_t>(pid);
  if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0) expected_[pid] = std::move(fd);
}

void Deaths::look_at_signals() {
  Deaths* none = nullptr;
  if (!at_signals.compare_exchange_strong(none, this)) return;
  ::sigaction(SIGCHLD, nullptr, &next_action);
  struct sigaction action = next_action;
  action.sa_flags |= SA_SIGINFO;
  action.sa_sigaction = &Deaths::on_signal;
  ::sigaction(SIGCHLD, &action, nullptr);
}

// All that it calls is safe in a signal handler. If this thread is looking, or takes over what was noted, the loop
// comes to this death at once. A process that was forked has the same epoll set, and leaves it alone.
void Deaths::on_signal(int signum, siginfo_t* info, void* context) {
  const int error = errno;
  Deaths* deaths = at_signals.load();
  if (deaths != nullptr && deaths->owner_ == ::getpid() &&
      !deaths->is_in_use_.test_and_set(std::memory_order_acquire)) {
    deaths->look();
    deaths->is_in_use_.clear(std::memory_order_release);
  }
  errno = error;
  if ((next_action.sa_flags & SA_SIGINFO) != 0)
    next_action.sa_sigaction(signum, info, context);
  else if (next_action.sa_handler != SIG_DFL && next_action.sa_handler != SIG_IGN)
    next_action.sa_handler(signum);
}

void Deaths::look() {
  constexpr std::size_t kAtOnce = 64;
  std::array<epoll_event, kAtOnce> events;
  while (size_ < noted_.size()) {
    const auto room = static_cast<int>(std::min(events.size(), noted_.size() - size_));
    const int count = ::epoll_wait(set_.get(), events.data(), room, 0);
    const Seconds now = clock_now();
    for (int i = 0; i < count; ++i)
      noted_[size_++] = {static_cast<pid_t>(events[static_cast<std::size_t>(i)].data.u64), {now, ++count_}};
    if (count < room) return;
  }
}

void Deaths::take_over() {
  while (is_in_use_.test_and_set(std::memory_order_acquire)) ::sched_yield();  // by a handler in another thread
  std::size_t taken = 0;
  do {
    look();
    taken = size_;
    for (std::size_t i = 0; i < taken; ++i) {
      const Noted& each = noted_[i];
      expected_.erase(each.pid);
      known_[each.pid] = each.death;
      untold_.push_back(each.pid);
    }
    size_ = 0;
  } while (taken == noted_.size());
  is_in_use_.clear(std::memory_order_release);
}

std::optional<pid_t> Deaths::next() {
  if (untold_.empty() && !expected_.empty()) take_over();
  if (untold_.empty()) return std::nullopt;
  pid_t pid = untold_.front();
  untold_.pop_front();
  return pid;
}

Death Deaths::take(pid_t pid) {
  expected_.erase(pid);
  auto known = known_.extract(pid);
  return known.empty() ? Death{clock_now(), 0} : known.mapped();
}

// ---- process tree -----------------------------------------------------------------------

namespace {

using ByParent = std::unordered_map<pid_t, std::vector<pid_t>>;

std::string proc(pid_t pid) { return "/proc/" + std::to_string(pid); }

// A zombie: has to be reaped, cannot be signalled. If its first thread has ended, a process still runs in its other
// threads.
bool is_ended(const ProcessStat& stat) { return stat.state == 'Z' && stat.threads <= 1; }

// Reads all of /proc, for a kernel that does not list the children of a thread.
ByParent scan() {
  ByParent out;
  for (pid_t pid : numbers_in("/proc")) {
    if (auto stat = ProcessStat::of(pid); stat && stat->parent > 0) out[stat->parent].push_back(pid);
  }
  return out;
}

// The kernel lists them by thread.
std::vector<pid_t> listed_children(pid_t pid) {
  std::vector<pid_t> out;
  for (pid_t thread : numbers_in(proc(pid) + "/task")) {
    Result<std::string> list = read_file(proc(pid) + "/task/" + std::to_string(thread) + "/children");
    if (!list) continue;
    for (std::string_view each : split(*list, ' ')) {
      if (auto child = parse_u64(each)) out.push_back(static_cast<pid_t>(*child));
    }
  }
  return out;
}

}  // namespace

Lookup best_lookup() {
  static const bool is_listed = ::access("/proc/thread-self/children", R_OK) == 0;
  return is_listed ? Lookup::listed : Lookup::scan;
}

namespace {

std::vector<pid_t> look_for_descendants(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without) {
  ByParent by_parent = lookup == Lookup::scan ? scan() : ByParent();
  std::vector<pid_t> found{ancestor};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<pid_t> next = lookup == Lookup::scan ? by_parent[found[i]] : listed_children(found[i]);
    std::copy_if(next.begin(), next.end(), std::back_inserter(found),
                 [&](pid_t pid) { return !without.contains(pid); });
  }
  found.erase(found.begin());
  std::erase_if(found, [](pid_t pid) {
    auto stat = ProcessStat::of(pid);
    return !stat || is_ended(*stat);
  });
  return {found.rbegin(), found.rend()};
}

bool has_descriptor_left() {
  UniqueFd file(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return file || (errno != EMFILE && errno != ENFILE);
}

// A thread of the parent may have held a lock that this child waits for.
void end_after(unsigned seconds) {
  ::signal(SIGALRM, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::alarm(seconds);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// What a child finds, which closes all of its descriptors: memory that both have needs none.
std::vector<pid_t> let_child_look(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without) {
  constexpr std::size_t kMost = std::size_t{64} << 10;  // processes
  constexpr unsigned kMostLook = 10;                    // seconds
  constexpr std::size_t kBytes = (kMost + 1) * sizeof(pid_t);
  void* shared = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {};
  auto* found = static_cast<pid_t*>(shared);  // the first one is how many follow
  SignalsBlocked blocked;
  // Without the handlers of fork(2): libuv's opens a pipe, and ends the process if it cannot.
  pid_t child = ::_Fork();
  if (child == 0) {
    end_after(kMostLook);
    close_from(0);
    raise_descriptor_limit();
    for (pid_t pid : look_for_descendants(ancestor, lookup, without)) {
      if (pid != ::getpid() && static_cast<std::size_t>(found[0]) < kMost) found[++found[0]] = pid;
    }
    ::_exit(0);
  }
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  std::vector<pid_t> out(found + 1, found + 1 + found[0]);
  ::munmap(shared, kBytes);
  return out;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without) {
  return has_descriptor_left() ? look_for_descendants(ancestor, lookup, without)
                               : let_child_look(ancestor, lookup, without);
}

}  // namespace nacre::event
