// SPDX-License-Identifier: Apache-2.0
#include "cli/interrupts.hpp"

namespace nacre::cli {
namespace {

constexpr std::initializer_list<int> kEnding = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool is_ignored(int signum) {
  struct sigaction action {};
  return ::sigaction(signum, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Interrupts::Interrupts() : held_(kEnding) {}

std::optional<int> Interrupts::pending() const {
  sigset_t waiting;
  ::sigemptyset(&waiting);
  ::sigpending(&waiting);
  for (int signum : kEnding) {
    // A blocked signal becomes pending even if it is ignored.
    if (::sigismember(&waiting, signum) == 1 && !is_ignored(signum)) return signum;
  }
  return std::nullopt;
}

}  // namespace nacre::cli
