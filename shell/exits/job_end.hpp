// SPDX-License-Identifier: Apache-2.0
//
// How a job ends, as one of its shells sees it: a state machine without clocks or processes. The shell tells it what
// happens, and does what it answers.
//
//   running --raised, ordered, ended by a signal--> ending --agreed--> agreed
//      |                                               |
//      +-----------------cut_off-----------------------+---> cut off
//
// The first failure on this shell ends the job here at once (raised). All shells get every failure in one order (ordered),
// so they agree on the first of these: the cause, whose exit code is the job's.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "exits/outcomes.hpp"
#include "exits/policy.hpp"

namespace nacre::exits {

struct Cause {
  std::string message;      // one line
  std::optional<int> code;  // that the job exits with; none: the policy's, and at least 1
  std::uint32_t shell = 0;  // where it came from
  std::optional<TaskEnd> task =
      {};  // whose end it is: then the policy decides, which counts this end even if its record comes later
  bool over_time = false;  // a time limit: what it ends counts as 124, and the policy decides

  bool operator==(const Cause&) const = default;
};

// What the shell has to do with its tasks, and with what else belongs to the job.
enum class Action : std::uint8_t {
  nothing,
  pass_on,  // the signal goes to the tasks
  end,      // SIGTERM, a grace, SIGKILL; failures are sent to the other shells
  kill,     // SIGKILL, and nothing is waited for
};

// The tasks that a signal to this shell is for: its own, or on the leader those of the whole job.
enum class Work : std::uint8_t {
  starting,   // not all of them have been started
  running,    // some of them run
  elsewhere,  // none of them, but perhaps some of other shells
  over,       // all tasks of the job have ended
};

// How far the tasks are, as the shell that gets a signal knows it.
struct TaskProgress {
  bool started = false;  // all of the job's
  bool over = false;     // all of the job's; who cannot know of others': those of this shell, if it is the only one
  bool running = false;  // one of this shell's at least
};
// `for_all`: the signal is for the tasks of all shells.
[[nodiscard]] Work work_for(const TaskProgress& tasks, bool for_all);

class JobEnd {
 public:
  static constexpr double kInterruptWindow = 2.0;  // seconds in which a second SIGINT ends the job

  // A failure on this shell: `end` for the first one, which is to be sent to all shells.
  Action raised(Cause cause);
  // A failure of any shell, this one included, as all shells get them in one order.
  Action ordered(Cause cause);
  // SIGINT, SIGTERM, SIGHUP or SIGQUIT; `now` in seconds. After `end`, ended_by_signal() is the cause to be sent to all.
  Action signalled(int signum, double now, Work work);
  // All tasks of the job, or of this shell, are sent the signal from outside. Those that it ends have not failed by themselves.
  void sent_to_tasks(int signum) { sent_.insert(signum); }
  [[nodiscard]] bool has_sent(int signum) const { return sent_.contains(signum); }
  // This shell is not of the job any more, or cannot reach it.
  Action cut_off(std::string why);
  // The leader has decided: the exit code of the job. Nothing that comes later changes it.
  void agreed(int code);

  [[nodiscard]] bool is_ending() const { return local_ || cause_ || is_cut_off_; }  // the job ends before its time
  [[nodiscard]] bool is_decided() const { return cause_.has_value(); }  // which failure was the first of the job
  [[nodiscard]] bool is_cut_off() const { return is_cut_off_; }
  [[nodiscard]] bool is_killed() const { return is_killed_; }  // nothing is waited for any more
  [[nodiscard]] bool is_agreed() const { return agreed_.has_value(); }
  // The first failure of the job; before the shells have put it in order, this shell's. None: the job is not being ended.
  [[nodiscard]] const std::optional<Cause>& cause() const { return cause_ ? cause_ : local_; }

  // The same with the end of the task that has ended the job, whose own report may come later.
  [[nodiscard]] Outcomes known(const Outcomes& outcomes) const;
  // The code of a signal to all tasks, from outside, if that has ended all that failed.
  [[nodiscard]] std::optional<int> cancelled(const Outcomes& outcomes, const Policy& policy) const;
  // 0..255: what the job exits with, if `outcomes` is how its tasks ended. 128 + N where all that failed were ended by signal N from
  // outside. At least 1 if it ended before its time, unless by a task that does not count by the policy.
  [[nodiscard]] int code(const Outcomes& outcomes, const Policy& policy) const;

 private:
  Action interrupted(double now, Work work);

  std::optional<Cause> local_;  // this shell's first failure
  std::optional<Cause> cause_;  // the first of the common order
  std::optional<int> agreed_;
  std::optional<double> interrupted_at_;
  std::set<int> sent_;  // signals
  bool is_cut_off_ = false;
  bool is_killed_ = false;
};

// "interrupted" for SIGINT, else "ended by SIGTERM".
[[nodiscard]] Cause ended_by_signal(int signum, std::uint32_t shell);

}  // namespace nacre::exits
