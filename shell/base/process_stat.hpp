// SPDX-License-Identifier: Apache-2.0
//
// What /proc tells about a process, proc(5): PID/stat, and for this process its largest memory.
#pragma once

#include <sys/types.h>

#include "base/result.hpp"

namespace nacre {

struct ProcessStat {
  std::string name;  // the program's, at most 15 bytes of any kind
  char state = '?';  // a letter: R runs, S sleeps, D waits in the kernel, T is stopped, Z has ended, ...
  pid_t parent = 0, group = 0, session = 0;
  std::uint64_t user = 0, system = 0;                    // ticks of CPU time, of all threads
  std::uint64_t children_user = 0, children_system = 0;  // of children that it has waited for
  std::uint64_t threads = 0;                             // the first one is counted even if it has ended
  std::uint64_t start = 0;                               // ticks since the boot
  std::uint64_t pages = 0;                               // resident

  [[nodiscard]] std::uint64_t own_ticks() const { return user + system; }
  [[nodiscard]] std::uint64_t children_ticks() const { return children_user + children_system; }

  // None: the text is no such line.
  static std::optional<ProcessStat> parse(std::string_view text);
  // None: there is no such process. `root`: the folder that proc is in.
  static std::optional<ProcessStat> of(pid_t pid, const std::string& root = "");
};

// The entries of a folder whose names are numbers, in any order: processes, threads, descriptors. Empty if there is
// no such folder.
[[nodiscard]] std::vector<int> numbers_in(const std::string& folder);

// Whether proc is mounted.
[[nodiscard]] bool has_proc();

// On the clock of ProcessStat::start; 0 if it is not known.
[[nodiscard]] double seconds_since_boot();

// Corrects what this process may have inherited in a bad state. Both programs call these first, before anything
// opens a file or starts a thread.

// Replaces each of standard input, output and error that is closed by /dev/null, so that no file of this process
// gets its number. Writing to a standard output that was closed fails with EBADF, so that output is not lost
// without a message; standard error just loses what is written.
Result<void> open_closed_streams();

// Whether the descriptor is open for writing; false for a standard output that was closed.
[[nodiscard]] bool is_writable(int fd);

// Unblocks all signals, and sets those that end a process, or report to it, to their default actions. SIGINT,
// SIGQUIT and SIGHUP stay ignored if they are ignored, as nohup(1) and shells with background jobs intend; so do
// SIGTSTP, SIGTTIN and SIGTTOU.
void reset_signals();

// Whether this process ignores the signal.
[[nodiscard]] bool ignores_signal(int signum);

// The letter of /proc/PID/stat; none if there is no such process.
[[nodiscard]] std::optional<char> process_state(pid_t pid);

// Whether a process with that letter stands still: a signal has stopped it, or it waits in the kernel and cannot be
// woken, as for a file system that does not answer.
[[nodiscard]] bool stands_still(std::optional<char> state);

// When a process of this host stands still, and for how long.
class Standstill {
 public:
  static constexpr double kFirst = 10;  // seconds, before it is reported
  static constexpr double kNext = 600;  // between two reports about the same process

  static constexpr std::string_view kStopped = "has been stopped by a signal";
  static constexpr std::string_view kGoesOn = "goes on, after";

  // A report, if one is due, such as "has been stopped by a signal for 10 s" or "goes on, after 23 s". `now`:
  // seconds of any clock that does not jump.
  std::optional<std::string> update(std::optional<char> state, double now);

 private:
  std::optional<double> since_;
  std::optional<double> reported_;
};

}  // namespace nacre
