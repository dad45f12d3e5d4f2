// SPDX-License-Identifier: Apache-2.0
//
// The shells of one job, as one of them sees the others: barriers and other collectives, and what concerns the
// whole job, which every shell receives in the same order. Alone (one shell), OverlayDriver (one of several) and
// Extendable (one that may get others) are Groups.
#pragma once

#include "bulk/port.hpp"
#include "exits/record.hpp"
#include "group/directory.hpp"
#include "overlay/entry.hpp"
#include "transport/secret.hpp"

namespace nacre::group {

struct JobException {
  std::string type;
  int severity = 0;  // 0 ends the job
  std::string message;
  std::optional<int> exit_code;             // the job's exit code because of it
  Rank origin = 0;                          // the shell that raised it; set by the group
  bool of_shell = false;                    // that shell itself has failed; false: a plugin has raised it
  std::optional<exits::TaskEnd> task = {};  // the task's end that is the reason
};

// Tasks that have ended in the same way.
struct Ended {
  value::Idset tasks;
  exits::Record record;
};

// The ranks of the tasks that get a signal. None: all tasks of the job; an empty set: no task.
using Targets = std::optional<value::Idset>;

class Group {
 public:
  // Called from the loop, or before the call of a member returns. They may call members, but not destroy the group.
  struct Callbacks {
    // Every shell gets these in one order, its own included.
    std::function<void(const JobException&)> on_exception;
    std::function<void(int signum, const Targets& tasks)> on_signal;
    std::function<void(Rank)> on_lost;  // that shell is no longer of the job
    std::function<void(std::string_view topic, std::string_view bytes)> on_announcement;
    // An order for this shell, in one sequence with all of the above. The shell that has asked gets its answer
    // first.
    std::function<void(const value::ExecShare&)> on_exec;
    // A shrink: these shells have left the job, as somebody has asked. The shells that stay get this in one order
    // with all of the above, once the leaving ones have gone or their time is over.
    std::function<void(const value::Idset& shells)> on_left;
    std::function<void(const value::Shrunk&)> on_shrunk;
    // A shrink takes this shell out of the job: it has to call leave() at once. Nothing that it does reaches the
    // others any more, except ends of tasks, so its output should have gone up before. Its collectives end with
    // ECANCELED.
    std::function<void()> on_leave;
    // The leader only: which tasks of all shells have newly started or ended.
    std::function<void(const value::Idset& started, const std::vector<Ended>& ended)> on_tasks;
    // Another shell leads from now on, in one order with all of the above; the loss of the former leader comes
    // next.
    std::function<void(Rank)> on_leader;
    // This shell leads now, and on_tasks has told it all that the others know. Bulk data comes after this.
    std::function<void()> on_leading;
    // This shell and others are half of those that were left, and cannot tell whether the other half goes on: they
    // may without these, if it does not (arbiter_agrees()). Called again as these change.
    std::function<void(const value::Idset& others)> on_half;
    // This shell is cut off from its job for good: it has to end its tasks and itself at once.
    std::function<void(const Error& why)> on_cut_off;
  };
  // For each part, the shells that gave it.
  using Gathered = std::map<std::string, value::Idset>;

  virtual ~Group() = default;

  virtual void serve(Callbacks callbacks) = 0;

  // A secret that all shells of the job know, and nobody else; it belongs to the group.
  virtual Result<const transport::Secret*> secret() = 0;

  // Collectives. Each shell enters each name once. `done` is called once: when every shell has entered, or with an
  // error when this shell has been cut off. It may be called before enter() returns. The shells of the job's start
  // have their collectives, and so have those that one grow has brought; only sum_with_all() and max_with_all() are
  // of all shells.
  virtual void enter(std::string_view barrier, std::function<void(Result<void>)> done) = 0;
  // Like a barrier, but `done` is given the sum of what all shells give, which stops at the ends of 64 bits, or the
  // largest of it.
  using WhenCounted = std::function<void(Result<std::int64_t>)>;
  virtual void sum_with_all(std::string_view barrier, std::int64_t mine, WhenCounted done) = 0;
  virtual void max_with_all(std::string_view barrier, std::int64_t mine, WhenCounted done) = 0;
  using WhenGathered = std::function<void(Result<Gathered>)>;
  virtual void gather(std::string_view name, std::string mine, WhenGathered done) = 0;
  // As gather(), from all shells up to `last`, whenever they have come; this one is among them. `last` comes from
  // last_come_with(), which all of them call at the same place in the order of the job's log.
  virtual void gather_up_to(Rank last, std::string_view name, std::string mine, WhenGathered done) = 0;
  // The last shell of the job's start or, if a later grow has brought `rank`, of that grow.
  [[nodiscard]] virtual Rank last_come_with(Rank rank) const = 0;

  // Requests an entry of the job's log, which all shells are told of (told_of()). `done`, which may be unset, is
  // called once: with the entry that answers, perhaps overlay::Refused, before this shell is told of it; or with an
  // error: EPIPE once the job has ended, or this shell has been cut off.
  using WhenAnswered = std::function<void(Result<overlay::Entry>)>;
  virtual void request(overlay::RequestBody body, WhenAnswered done) = 0;

  // Sends the announcement to every shell.
  virtual void raise(const JobException& exception) = 0;
  void signal(int signum, const Targets& tasks);
  virtual Result<void> announce(std::string_view topic, std::string_view bytes) = 0;  // EMSGSIZE: kMaxAnnounced

  // Orders shells to start something. `done` is called once: with an answer, or with an error: EMSGSIZE, EPIPE once
  // the job has ended, or this shell has been cut off.
  using WhenOrdered = std::function<void(Result<value::ExecAnswer>)>;
  virtual void exec(value::ExecOrder order, WhenOrdered done) = 0;

  // Takes shells out of the job. `done` is called once: when they have gone, or their time is over, or with an
  // error. EINVAL: the leader is one of them, or none of them is of the job. EMSGSIZE, EPIPE, cut off: as above.
  using WhenShrunk = std::function<void(Result<value::Shrunk>)>;
  void shrink(const value::Idset& shells, WhenShrunk done);

  // Waits at most `wait` for shells of these ranks, which no shell has had and which somebody starts, to join the
  // job; suspect() reports those that will not. `done` is called once: with those that have come, perhaps none, or
  // with an error. EINVAL: a rank is in use, or was. EPIPE, cut off: as above.
  using WhenGrown = std::function<void(Result<value::Grown>)>;
  void grow(const value::Idset& shells, std::chrono::milliseconds wait, WhenGrown done);
  // The lowest rank above those of all shells that the job has had.
  [[nodiscard]] virtual Rank first_unused() const { return 0; }
  // Where that shell of the job can be dialled; empty: unknown.
  [[nodiscard]] virtual std::vector<transport::Address> addresses_of(Rank /*rank*/) const { return {}; }

  // These are tasks of this shell.
  virtual void tasks_started(const value::Idset& tasks) = 0;
  virtual void tasks_ended(const Ended& ended) = 0;

  // Bulk data; null: there is no other shell, and will be none. A shell that may get others can serve it before,
  // but not send (ENOTCONN).
  virtual bulk::Port* bulk() = 0;
  // From now on this shell puts nothing there. It has to be called before the collective that ends the job, so that
  // the leader gets all.
  virtual void close_bulk() = 0;

  // How long a shell may be silent before it counts as lost: 2 seconds or more. The same for all shells.
  virtual void wait_for_silent(std::chrono::milliseconds bound) = 0;
  // For a child of this shell that has counted as lost because it was silent: for how long it was, and how late
  // this shell's own timers were then; otherwise "".
  [[nodiscard]] virtual std::string silence_of(Rank /*rank*/) const { return ""; }
  // Leader: a shell that counts as lost has really ended: its process has ended, or its link, which also ends the
  // shell. False: it may just not answer.
  [[nodiscard]] virtual bool has_ended(Rank /*rank*/) const { return false; }
  // This child of this shell, or a shell that a grow waits for, is known to be lost: its agent has failed.
  virtual void suspect(Rank rank) = 0;

  // From now on, when the leader is lost, the others choose another one, if more than half of them are left; until
  // then all of them end with it. All shells call this before they enter a barrier. `has_arbiter`: half is enough,
  // for that and for a first leader that loses others, if arbiter_agrees() is called; it is needed then. A leader
  // that is only silent is waited for `silences` times as long as another shell.
  virtual void hand_over(bool /*has_arbiter*/, std::uint32_t /*silences*/) {}
  // These do not go on: nobody has told, or will tell, them that they may.
  virtual void arbiter_agrees(const value::Idset& /*others*/) {}
  // This shell, which has come to lead, cannot: it is cut off, and the others choose another one.
  virtual void resign() {}
  // The leader that on_leader has last named.
  [[nodiscard]] virtual Rank leader() const { return 0; }
  // For a shell that has come to lead after leave(): the job's exit code.
  virtual void end_job(int /*code*/) {}

  // From now on nothing passes directly between this shell and these, as if the network between them was cut; what
  // is sent waits. Links to all other shells work. For rehearsals.
  virtual void hold_links(const value::Idset& /*shells*/) {}

  // For a job that ends before all shells have joined: its end does not wait for the absent ones.
  virtual void give_up_absent() = 0;
  // For a job that has to end at once: from now on, on all shells, a shell that is silent for kSilentAtEnd counts
  // as lost.
  static constexpr std::chrono::milliseconds kSilentAtEnd{2000};
  virtual void give_up_silent() = 0;

  // This shell needs the others no longer. The leader's `code` is the job's exit code, and ends the job for all;
  // the code of others does not count. `done` is called when this shell may exit: with the job's exit code, or none
  // if this shell did not receive it.
  virtual void leave(int code, std::function<void(std::optional<int>)> done) = 0;

  // After leave(), on a shell that a shrink takes out: the others count it as gone once the kernel has closed this
  // link, when the process has ended. None: not all that was sent is out yet. Empty: there is no such link.
  virtual std::optional<UniqueFd> take_last_link() { return UniqueFd(); }
  virtual void stay() {}  // in place of take_last_link(): this process goes on, and nobody waits for its end
};

// What the owner of the shell `self` is told of an entry, by one of its callbacks; empty: nothing. Views, the end,
// exceptions and events are left out: they mean more to a shell than a callback.
std::function<void(const Group::Callbacks&)> told_of(const overlay::Entry& entry, Rank self);

}  // namespace nacre::group
