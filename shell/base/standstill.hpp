// SPDX-License-Identifier: Apache-2.0
//
// Whether a process of this host stands still: a signal has stopped it, or it waits in the kernel and cannot be
// woken, as for a file system that does not answer.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace nacre {

// The letter of /proc/PID/stat; none if there is no such process.
[[nodiscard]] std::optional<char> process_state(pid_t pid);

class Standstill {
 public:
  static constexpr double kFirst = 10;  // seconds, before it is reported
  static constexpr double kNext = 600;  // between two reports of the same one

  // A report, if one is due, such as "has been stopped by a signal for 10 s" or "goes on, after 23 s". `now`:
  // seconds of any clock that does not jump.
  std::optional<std::string> update(std::optional<char> state, double now);

 private:
  std::optional<double> since_;
  std::optional<double> reported_;
};

}  // namespace nacre
