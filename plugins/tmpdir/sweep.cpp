// SPDX-License-Identifier: Apache-2.0
#include "plugins/tmpdir/sweep.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "base/remove_tree.hpp"
#include "base/signals_blocked.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMostNamed = 3;

// Runs in a forked child, with all signals blocked. It ends with the shell, or when the shell ends
// what its tasks have left.
[[noreturn]] void remove_all(const std::vector<OwnedDirectory>& directories, pid_t shell) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shell) ::_exit(1);
  for (int signum = 1; signum < NSIG; ++signum) std::signal(signum, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const OwnedDirectory& each : directories) static_cast<void>(remove_tree(each.path()));
  ::_exit(0);
}

std::string names_of(const std::vector<OwnedDirectory>& directories) {
  std::string out;
  for (std::size_t i = 0; i < directories.size() && i < kMostNamed; ++i)
    out += (i == 0 ? "" : ", ") + directories[i].path();
  if (directories.size() > kMostNamed) out += fmt::format(" and {} more", directories.size() - kMostNamed);
  return out;
}

}  // namespace

Result<void> Sweep::start(const std::string& parent, LeftDirectories::OthersLook others_look,
                          const OwnedDirectory& own) {
  left_.emplace(TRY(LeftDirectories::in(parent, std::move(others_look), &own)));
  timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
  timer_->unref();
  timer_->start(event::Seconds::zero());
  return {};
}

void Sweep::look() {
  if (left_->look()) return timer_->start(event::Seconds::zero());
  if (!left_->found().empty()) remove();
  left_.reset();
}

void Sweep::remove() {
  log(host_, plugin_, Level::notice, "removes what a shell that was killed has left: {}", names_of(left_->found()));
  pid_t shell = ::getpid();
  pid_t pid = -1;
  {
    SignalsBlocked blocked;
    pid = ::fork();
    if (pid == 0) remove_all(left_->found(), shell);
  }
  if (pid < 0) log(host_, plugin_, Level::warn, "{}", system_error(errno, "cannot start a process").message);
}

}  // namespace nacre::plugins
