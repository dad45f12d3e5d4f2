// SPDX-License-Identifier: Apache-2.0
//
// The status of a process that ended, by waitpid(2), and the names of signals (signal(7), with or without "SIG").
#pragma once

#include <sys/wait.h>

#include "base/usual.hpp"

namespace nacre::value {

constexpr int kSignalBase = 128;  // added to a signal's number: the exit code of what the signal has ended

class WaitStatus {
 public:
  WaitStatus() = default;                                        // exited with 0
  static WaitStatus of_raw(int raw) { return WaitStatus(raw); }  // in the form of waitpid
  static WaitStatus exited(int code);                            // 0..255
  static WaitStatus killed(int signum) { return WaitStatus(signum & 0x7f); }

  [[nodiscard]] int raw() const { return raw_; }
  [[nodiscard]] bool is_exit() const { return WIFEXITED(raw_); }
  [[nodiscard]] bool is_signal() const { return WIFSIGNALED(raw_); }
  [[nodiscard]] int exit_code() const { return is_exit() ? WEXITSTATUS(raw_) : 0; }  // if it exited; 0 otherwise
  [[nodiscard]] int signal() const;  // if a signal ended it; 0 otherwise
  // The signal that has ended it, also if it has caught it and says so with 128 + N, as shells do; else 0.
  [[nodiscard]] int ending_signal() const { return std::max(0, job_code() - kSignalBase); }
  [[nodiscard]] bool dumped_core() const;
  // The job's code for it: the exit code, or 128 + signal.
  [[nodiscard]] int job_code() const { return is_signal() ? kSignalBase + signal() : exit_code(); }
  [[nodiscard]] bool success() const { return job_code() == 0; }
  [[nodiscard]] std::string str() const;  // "exited with code 3", "killed by SIGSEGV (core dumped)"

  bool operator==(const WaitStatus&) const = default;

 private:
  explicit WaitStatus(int raw) : raw_(raw) {}
  int raw_ = 0;
};

// "SIGTERM" for 15, "SIGRTMIN+1"; "signal 99" for a number without a name.
[[nodiscard]] std::string signal_name(int signum);
// 15 for "15", "TERM", "SIGTERM" in any case, also [SIG]RTMIN[+n] and [SIG]RTMAX[-n]; 0 if it is no signal.
[[nodiscard]] int signal_number(std::string_view name);

}  // namespace nacre::value
