// SPDX-License-Identifier: Apache-2.0
#include "event/deaths.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "event/clock.hpp"

namespace nacre::event {
namespace {

constexpr std::size_t kAtOnce = 64;  // deaths of one call

}  // namespace

Result<std::unique_ptr<Deaths>> Deaths::create() {
  UniqueFd set(::epoll_create1(EPOLL_CLOEXEC));
  if (!set) return system_error(errno, "epoll_create1");
  return std::unique_ptr<Deaths>(new Deaths(std::move(set)));
}

Deaths::~Deaths() {
  if (!thread_.joinable()) return;
  std::uint64_t one = 1;
  [[maybe_unused]] ssize_t written = ::write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Deaths::expect(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = static_cast<std::uint64_t>(pid);
  if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0) expected_[pid] = std::move(fd);
}

Result<void> Deaths::look_by_thread() {
  if (thread_.joinable()) return {};
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_) return system_error(errno, "eventfd");
  // Signals are for the loop's thread.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<void> started;
  try {
    thread_ = std::thread([this] { wait_and_look(); });
  } catch (const std::system_error& error) {
    started = system_error(error.code().value(), "cannot start a thread");
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

void Deaths::wait_and_look() {
  std::array<pollfd, 2> watched{{{set_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
  while (watched[1].revents == 0) {
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) return;
    if (watched[0].revents != 0) look();
  }
}

void Deaths::look() {
  std::lock_guard lock(mutex_);
  std::array<epoll_event, kAtOnce> events{};
  int count = 0;
  do {
    count = ::epoll_wait(set_.get(), events.data(), static_cast<int>(events.size()), 0);
    const Seconds now = clock_now();
    for (int i = 0; i < count; ++i)
      noted_.push_back({static_cast<pid_t>(events[static_cast<std::size_t>(i)].data.u64), {now, ++count_}});
  } while (count == static_cast<int>(events.size()));
}

std::optional<pid_t> Deaths::next() {
  look();
  {
    std::lock_guard lock(mutex_);
    for (const Noted& each : noted_) {
      expected_.erase(each.pid);
      known_[each.pid] = each.death;
      untold_.push_back(each.pid);
    }
    noted_.clear();
  }
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
