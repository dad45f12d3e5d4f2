// SPDX-License-Identifier: Apache-2.0
//
// Blocks signals in this thread while the object lives: all, or the given ones. Threads and processes that it
// starts meanwhile begin with the same mask.
#pragma once

#include <csignal>
#include <initializer_list>

namespace nacre {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  explicit SignalsBlocked(std::initializer_list<int> signals) {
    sigset_t these;
    ::sigemptyset(&these);
    for (int signum : signals) ::sigaddset(&these, signum);
    ::pthread_sigmask(SIG_BLOCK, &these, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// From now on the signals that end a process are not delivered to this thread: once its exit code is known, a late
// Ctrl-C must not replace it.
inline void block_ending_signals() {
  sigset_t these;
  ::sigemptyset(&these);
  for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&these, signum);
  ::pthread_sigmask(SIG_BLOCK, &these, nullptr);
}

}  // namespace nacre
