// SPDX-License-Identifier: Apache-2.0
//
// Signals before or beside a loop that watches for them: blocking, holding, and removing files when one ends the
// process.
#pragma once

#include <signal.h>

#include "base/usual.hpp"

namespace nacre {

// Blocks signals in this thread while the object lives: all, or the given ones. Threads and processes that it
// starts meanwhile begin with the same mask.
class SignalsBlocked : Noncopyable {
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

// SIGINT, SIGTERM, SIGHUP and SIGQUIT wait while one lives.
class EndingSignalsHeld : Noncopyable {
 public:
  EndingSignalsHeld();
  ~EndingSignalsHeld() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// A signal that ends the process before it watches for signals runs no destructor. So each of these signals that
// has the default action now removes `file`, then `directory`, and then ends the process as usual. Both are
// absolute paths that exist until the process has set an action of its own. Only the last call in a process counts;
// a path longer than PATH_MAX is not removed.
void remove_when_ended_early(const std::string& file, const std::string& directory);

}  // namespace nacre
