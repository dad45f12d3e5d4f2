// SPDX-License-Identifier: Apache-2.0
//
// How a job ends, as one of its shells sees it: a state machine without clocks or processes. The shell calls it
// when something happens, and performs the returned Action.
//
//   running --raised, ordered, ended by a signal--> ending --agreed--> agreed
//      |                                               |
//      +-----------------cut_off-----------------------+---> cut off
//
// The first failure on this shell ends the job here at once (raised). All shells get every failure in one order
// (ordered), so they agree on the first of these: the cause, whose exit code is the job's.
#pragma once

#include "base/json_fwd.hpp"
#include "exits/policy.hpp"
#include "exits/record.hpp"

namespace nacre::exits {

struct Cause {
  std::string message;      // one line
  std::optional<int> code;  // the job's exit code; none: the policy's, and at least 1
  std::uint32_t shell = 0;  // the shell that it comes from
  // A task's end is the cause: then the policy decides, and counts this end even if its record comes later. If it
  // is a victim's end, that task, which still ran, has ended the job with `code`.
  std::optional<TaskEnd> task = {};
  bool over_time = false;  // a time limit is the cause: the tasks that it ends count as 124, and the policy decides
  std::optional<FailureClass> failure = {};  // set if the cause is no task's end

  // The end by which the policy decides.
  [[nodiscard]] const TaskEnd* deciding() const {
    return task && task->record.kind() != Record::Kind::victim ? &*task : nullptr;
  }

  bool operator==(const Cause&) const = default;
};

// What the shell has to do with its tasks, and with everything else that belongs to the job.
enum class Action : std::uint8_t {
  nothing,
  pass_on,  // the signal goes to the tasks
  end,      // SIGTERM, a grace, SIGKILL; failures are sent to the other shells
  kill,     // SIGKILL, and the shell does not wait for anything
};

// The state of the tasks that a signal to this shell is for: its own tasks or, on the leader, those of the whole
// job.
enum class Work : std::uint8_t {
  starting,   // not all of them have been started
  running,    // some of them run
  elsewhere,  // none of its own, but perhaps some of other shells
  over,       // all tasks of the job have ended
};

// How far the tasks are, as far as the shell knows that gets a signal.
struct TaskProgress {
  bool started = false;  // all of the job's have started
  bool over = false;     // all of the job's have ended, as far as this shell can know
  bool running = false;  // at least one of this shell's
};
// `for_all`: the signal is for the tasks of all shells.
[[nodiscard]] Work work_for(const TaskProgress& tasks, bool for_all);

class JobEnd {
 public:
  static constexpr double kInterruptWindow = 2.0;  // seconds in which a second SIGINT ends the job
  // The text for a user whose SIGINT was passed on to `tasks` tasks. `may_leave`: Ctrl-Z leaves the job.
  static std::string interrupt_text(std::uint64_t tasks, bool may_leave);

  // A failure on this shell. Returns `end` for the first one, which has to be sent to all shells.
  Action raised(Cause cause);
  // A failure of any shell, this one included; all shells get the failures in one order.
  Action ordered(Cause cause);
  // SIGINT, SIGTERM, SIGHUP or SIGQUIT; `now` in seconds. If this returns `end`, ended_by_signal() is the cause to
  // be sent to all shells.
  Action signalled(int signum, double now, Work work);
  // All tasks of the job, or of this shell, get a signal from outside. The tasks that it ends have not failed by
  // themselves.
  void sent_to_tasks(int signum) { sent_.insert(signum); }
  [[nodiscard]] bool has_sent(int signum) const { return sent_.contains(signum); }
  // The first failure by evidence (exits/blame.hpp), which need not be the one that was learnt first.
  void set_first(const TaskEnd& first) { first_ = first; }
  [[nodiscard]] const std::optional<TaskEnd>& first() const { return first_; }
  // This shell does not belong to the job any more, or cannot reach it.
  Action cut_off(std::string why);
  // The leader has decided: the exit code of the job. Nothing that comes later changes it.
  void agreed(int code);
  // This shell has left the job as planned: its own exit code is 0. It waits for nothing any more.
  void left();

  [[nodiscard]] bool is_ending() const { return local_ || cause_ || is_cut_off_; }  // the job ends before its time
  [[nodiscard]] bool is_decided() const {
    return cause_.has_value();
  }  // it is known which failure was the job's first
  [[nodiscard]] bool is_cut_off() const { return is_cut_off_; }
  [[nodiscard]] bool is_killed() const { return is_killed_; }  // the shell waits for nothing any more
  [[nodiscard]] bool is_agreed() const { return agreed_.has_value(); }
  // The first failure of the job; before the shells have put it in order, this shell's. None: the job is not being
  // ended.
  [[nodiscard]] const std::optional<Cause>& cause() const { return cause_ ? cause_ : local_; }

  // `outcomes` with the end of the task that has ended the job, as its record may come later.
  [[nodiscard]] Outcomes known(const Outcomes& outcomes) const;
  // Whether a signal from outside to all tasks has ended such a task: it has not failed by itself.
  [[nodiscard]] bool ended_from_outside(const Record& record) const;
  // The code of a signal from outside to all tasks, if it has ended all tasks that failed.
  [[nodiscard]] std::optional<int> cancelled(const Outcomes& outcomes, const Policy& policy) const;
  // 0..255: the exit code of a job whose tasks ended as `outcomes`. 128 + N if a signal N from outside has ended
  // all tasks that failed. At least 1 if the job was ended before its time, unless a task has ended it that the
  // policy does not count.
  [[nodiscard]] int code(const Outcomes& outcomes, const Policy& policy) const;
  // Whose failure it is; none: nobody's, such as a signal from outside, or the job has not failed. If the policy
  // has a code for the class, code() returns it.
  [[nodiscard]] std::optional<FailureClass> failure_class(const Outcomes& outcomes, const Policy& policy) const;
  // The code, if it is the same by every policy with the same codes of success: the job was ended by something
  // other than a task's end.
  [[nodiscard]] std::optional<int> fixed(const Outcomes& outcomes, const Policy& policy) const;
  // 0 or 1: what the code is at least, whatever the policy.
  [[nodiscard]] int least() const;

 private:
  Action interrupted(double now, Work work);
  [[nodiscard]] int plain_code(const Outcomes& outcomes, const Policy& policy) const;
  [[nodiscard]] Outcomes but_from_outside(const Outcomes& outcomes) const;

  std::optional<Cause> local_;  // this shell's first failure
  std::optional<Cause> cause_;  // the first of the common order
  std::optional<TaskEnd> first_;
  std::optional<int> agreed_;
  std::optional<double> interrupted_at_;
  std::set<int> sent_;  // signals
  bool is_cut_off_ = false;
  bool is_killed_ = false;
};

// The class for the type of an exception that ends the job: "node-failure", "health", "timeout", "hang-watch",
// "no-progress".
[[nodiscard]] std::optional<FailureClass> class_of_type(std::string_view type);

// "interrupted" for SIGINT, else "ended by SIGTERM".
[[nodiscard]] Cause ended_by_signal(int signum, std::uint32_t shell);

// How a job has ended, as JSON: what Host::on_ended() passes on, and a part of the failure report.

// {"exit": {"code": 0..255, "policy": name, "main": rank, "by": why it is this code}, "tasks": {record: ranks
// (idset)}}, and {"cause": message} if the job was ended before its time. `code` is the job's; `outcomes` has a
// record of each task. Also what another policy would have to know: {"rule": {"main": rank}}, with "ok": codes of
// success (idset), if there are any, "first": the record of the first failure, "least": 1 if every policy's code
// would be at least 1, and "fixed": true if it would be `code`.
[[nodiscard]] Json summary(const JobEnd& end, const Outcomes& outcomes, const Policy& policy, int code);

}  // namespace nacre::exits
