// SPDX-License-Identifier: Apache-2.0
//
// What a signal to `nacre launch` comes to. As long as nobody has read what the job is, the first one that ends programs ends it
// all; after that they are for the job, which may take them as it likes, until one is meant: SIGINT twice within two seconds,
// SIGTERM, SIGHUP or SIGQUIT twice. Pure.
#pragma once

#include <map>
#include <optional>

namespace nacre::front {

class LaunchSignals {
 public:
  static constexpr double kTwice = 2;  // seconds between two of Ctrl-C that mean it, at most
  // Between two of another signal, at least: timeout(1) sends SIGTERM to a process and to its group.
  static constexpr double kApart = 0.1;

  enum class Act {
    pass,    // on to the job
    cancel,  // nobody has begun with the job: what would start it is ended
    end,     // the job is ended, whatever it does
    kill     // what has not ended yet is killed
  };

  // `now`: seconds of any clock that does not jump. `begun`: the leader has begun to read what the job is.
  Act on_signal(int signum, double now, bool begun);
  // A signal was passed on, and nobody has taken it: it ends the job.
  void end_by(int signum);

  // Whether it is one of SIGINT, SIGTERM, SIGHUP and SIGQUIT.
  [[nodiscard]] static bool ends_programs(int signum);
  // The signal that has ended the job from here, if one did: the exit code is 128 + that.
  [[nodiscard]] std::optional<int> ended_by() const { return ended_by_; }
  // SIGTERM, SIGHUP or SIGQUIT, if one has come first at `since` or later.
  [[nodiscard]] std::optional<int> terminated_since(double since) const;

 private:
  std::optional<double> interrupted_;  // when, the last time
  std::map<int, double> terminated_;   // by which other signal, and when it came first
  std::optional<int> ended_by_;
};

}  // namespace nacre::front
