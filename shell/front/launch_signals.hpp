// SPDX-License-Identifier: Apache-2.0
//
// What `nacre launch` does with a signal. Until the leader has begun to read the jobspec, the first signal that
// ends programs ends the launch. After that signals are passed on to the job, which may handle them as it likes. A
// repeated one ends the job: SIGINT twice within two seconds; SIGTERM, SIGHUP or SIGQUIT twice. SIGINT and then
// SIGTSTP, within the same time, are the wish to leave the job. Pure.
#pragma once

#include <map>
#include <optional>

#include "exits/job_end.hpp"

namespace nacre::front {

class LaunchSignals {
 public:
  static constexpr double kTwice = exits::JobEnd::kInterruptWindow;  // between two SIGINT that end the job, at most
  // Seconds between two of another signal, at least: timeout(1) sends SIGTERM both to a process and to its group.
  static constexpr double kApart = 0.1;

  enum class Act {
    pass,    // pass it on to the job
    cancel,  // the leader has not begun to read: end the agent that would start it
    end,     // end the job, whatever it does
    kill     // kill what has not ended yet
  };

  // `now`: seconds of any clock that does not jump. `begun`: the leader has begun to read the jobspec.
  Act on_signal(int signum, double now, bool begun);
  // A stop (Ctrl-Z) at `now` soon after a SIGINT that was passed on: this process leaves the job, which goes on.
  [[nodiscard]] bool leaves(double now) const;
  // A signal was passed on and the leader has not read it: so it ends the job.
  void end_by(int signum);

  // Whether it is one of SIGINT, SIGTERM, SIGHUP and SIGQUIT.
  [[nodiscard]] static bool ends_programs(int signum);
  // The signal by which this process has ended the job, if it has: the exit code is 128 + that.
  [[nodiscard]] std::optional<int> ended_by() const { return ended_by_; }
  // SIGTERM, SIGHUP or SIGQUIT, if the first of its kind came at `since` or later.
  [[nodiscard]] std::optional<int> terminated_since(double since) const;

 private:
  std::optional<double> interrupted_;  // when the last SIGINT came
  std::map<int, double> terminated_;   // the other signals that came, and when each came first
  std::optional<int> ended_by_;
};

}  // namespace nacre::front
