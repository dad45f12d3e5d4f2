// SPDX-License-Identifier: Apache-2.0
#include "event/deaths.hpp"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "event/clock.hpp"

namespace nacre::event {
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

}  // namespace nacre::event
