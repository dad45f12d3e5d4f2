// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupts.hpp"

namespace nacre::cli {
namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool is_ignored(int signum) {
  struct sigaction action {};
  return ::sigaction(signum, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Interrupts::Interrupts() {
  sigset_t held;
  ::sigemptyset(&held);
  for (int signum : kEnding) ::sigaddset(&held, signum);
  ::pthread_sigmask(SIG_BLOCK, &held, &before_);
}

Interrupts::~Interrupts() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> Interrupts::pending() const {
  sigset_t waiting;
  ::sigemptyset(&waiting);
  ::sigpending(&waiting);
  for (int signum : kEnding) {
    // A blocked signal waits even where it is ignored.
    if (::sigismember(&waiting, signum) == 1 && !is_ignored(signum)) return signum;
  }
  return std::nullopt;
}

}  // namespace nacre::cli
