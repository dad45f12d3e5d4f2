// SPDX-License-Identifier: Apache-2.0
//
// What the shell offers to plugins: builtins, loaded objects and Lua plugins all get this interface. The shell
// implements it; tests have a FakeHost (t/kit). References stay valid until the plugin is destroyed.
#pragma once

#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "broker/instance.hpp"
#include "bulk/port.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "exits/policy.hpp"
#include "exits/record.hpp"
#include "io/batch.hpp"
#include "job/job.hpp"
#include "plugin/registration.hpp"
#include "plugin/shell_messages.hpp"
#include "plugin/stack.hpp"
#include "task/task.hpp"
#include "timeline/recorder.hpp"

namespace nacre::plugin {

// What is known of the tasks' output, for plugins that report how tasks have ended after the output has come out;
// and the output itself, for plugins that also show it elsewhere.

// Receives what comes out at the standard output and error of the leader.
class OutputFollower {
 public:
  virtual ~OutputFollower() = default;

  virtual void put(const io::Batch& batch) = 0;
  // Called once: no task writes any more, and all that they have written has come out.
  virtual void all_out() = 0;
  // True: the tasks have to wait until TaskOutput::go_on() is called.
  [[nodiscard]] virtual bool full() const { return false; }
};

// The file that gets the tasks' output in place of the leader's standard output and error, once nobody reads these
// any more.
class OutputFile {
 public:
  virtual ~OutputFile() = default;

  // Open until the end of the process. None: nothing is written there (yet, or at all).
  virtual std::optional<int> file() = 0;
  // Nobody reads the leader's standard output or error any more. Returns whether there is a file from now on.
  virtual bool closed() = 0;
  // `bytes` bytes could not be written to the file; the job goes on without.
  virtual void lost(const Error& why, std::uint64_t bytes) = 0;
};

class TaskOutput {
 public:
  struct Tail {
    std::string out, err;      // the last bytes of each stream
    bool is_complete = false;  // the task has failed, and its streams have ended
    // When the last of `err` was read (on a terminal: of `out`), seconds since the Epoch; 0: never.
    double last_read = 0;
  };

  // What a task has written to its standard output and error so far.
  struct Written {
    std::optional<std::uint64_t> out,
        err;          // bytes; none: the stream does not go through the shell, as one to a file of the task's
    double last = 0;  // when any of it was last read, seconds since the Epoch; 0: never
  };

  virtual ~TaskOutput() = default;

  // On the leader: the tasks that have failed and whose output has come out. Their streams have ended, and none of
  // it waits in the shells. The tasks of a shell that is lost, or that has put out all, count too.
  virtual value::Idset come_out() = 0;
  // For a task of this shell; none: unknown.
  virtual std::optional<Tail> tail(std::uint32_t rank) = 0;
  // For a task of this shell that has ended: reads what is still in its pipes.
  virtual void read_now(std::uint32_t /*rank*/) {}
  // For a task of this shell; complete once task.exit is called for the plugins after `output`.
  virtual Written written(std::uint32_t /*rank*/) { return {}; }
  // The largest number that a task of this shell has written behind a word, in all its starts (io::LargestNumber);
  // none: it has written none, or neither restart nor slow-watch looks at that word in the output.
  struct Number {
    double value = 0;
    double grown = 0;  // when it was last seen to grow, seconds since the Epoch
    double took = 0;   // seconds from the growth before that one; 0: there was none
  };
  virtual std::optional<Number> largest_number(std::uint32_t /*rank*/, std::string_view /*word*/) {
    return std::nullopt;
  }
  // On the leader: `follower` receives the output of all tasks from now on; null: nobody does. It has to outlive
  // this object, or to be withdrawn.
  virtual void follow(OutputFollower* follower) = 0;
  virtual void follower_has_room() {}  // the follower was full before

  // On the leader, where `output.events` is set: what happens to the job comes out as lines of JSON, behind the
  // output that came before it.
  [[nodiscard]] virtual bool takes_events() const { return false; }
  // One event, as in Flux RFC 18; `context`: an object. Does nothing unless takes_events().
  virtual void put_event(std::string_view /*name*/, const Json& /*context*/) {}
  // On the leader: what comes out at the shell's standard output and error goes to the file of `to` once there is
  // one; call this again then. `to` has to outlive this object, or to be withdrawn (null).
  virtual void redirect(OutputFile* to) = 0;
};

// Events of the job, for their followers. An event is as in Flux RFC 18: {"timestamp", "name", "context"}.
class EventRecord {
 public:
  class Follower : Noncopyable {
   public:
    Follower(EventRecord& record, std::function<void(const Json&)> on_event)
        : record_(record), on_event_(std::move(on_event)) {
      record_.followers_.push_back(this);
    }
    ~Follower() { std::erase(record_.followers_, this); }

   private:
    friend class EventRecord;
    EventRecord& record_;
    std::function<void(const Json&)> on_event_;
  };

  [[nodiscard]] bool is_followed() const { return is_followed_; }  // or has been
  // Called once, by the first follow() from now on.
  void when_followed(std::function<void()> call) { when_followed_ = std::move(call); }
  // Notifies the followers. Meanwhile followers may be added, but not removed.
  void add(Json event) {
    events_.push_back(std::move(event));
    for (std::size_t i = 0; i < followers_.size(); ++i) followers_[i]->on_event_(events_.back());
  }
  [[nodiscard]] const std::vector<Json>& events() const { return events_; }
  // Follows the events from the next one on, as long as the Follower lives.
  [[nodiscard]] std::unique_ptr<Follower> follow(std::function<void(const Json&)> on_event) {
    if (!std::exchange(is_followed_, true) && when_followed_) when_followed_();
    return std::make_unique<Follower>(*this, std::move(on_event));
  }

 private:
  std::vector<Json> events_;
  std::vector<Follower*> followers_;
  std::function<void()> when_followed_;
  bool is_followed_ = false;
};

// The holds by which plugins make the shell wait, at the start of the job and at its end; a part of Host.
class Holds {
 public:
  virtual ~Holds() = default;

  // For work that outlives the last task: the shell does not finish before every named reference is released.
  // hold() returns how many references of this name there are now.
  virtual int hold(std::string_view name) = 0;
  virtual Result<void> release(std::string_view name) = 0;
  // For work that has to be over before the first task is started, and begins in shell.init or shell.post-init: the
  // shell waits, running its loop, until every named reference is released.
  virtual int hold_start(std::string_view name) = 0;
  virtual Result<void> release_start(std::string_view name) = 0;
  // For work that may fail on this node in shell.post-init, or that holds the start: no shell of the job starts a
  // task before all are ready, which costs a barrier. Call it in shell.init; one shell that does is enough.
  virtual void start_after_all() = 0;
};

// The standard input of a job that `nacre run` or `nacre launch` has started, as the tasks get it. It has one
// owner: at first the launcher; after the launcher has gone or lost it, a front end or nobody.
//
//   launcher --own()--> other --leave()--> nobody --own()--> other
//   launcher --goes---> nobody             all of them --end()--> ended
class JobInput {
 public:
  virtual ~JobInput() = default;

  // What becomes of the input when its owner goes without having ended it. True: it ends. By default it waits for
  // another owner.
  virtual void ends_with_owner(bool ends) = 0;
  [[nodiscard]] virtual bool has_ended() const = 0;
  [[nodiscard]] virtual bool is_launchers() const = 0;
  [[nodiscard]] virtual bool was_taken() const = 0;  // another owner than the launcher has had it

  // The caller is the owner from now on. `launcher`: on behalf of the launcher, which has come by another way. What
  // the launcher's stream has brought so far comes first; what it brings later is dropped. `on_room`: there is room
  // again after write() has returned false.
  enum class For { launcher, other };
  virtual void own(For whom, std::function<void()> on_room) = 0;
  // ---- for the owner
  // Takes all bytes. False: there is no room for more. Bytes that no task reads any more are dropped.
  virtual bool write(std::string_view bytes) = 0;
  virtual void end() = 0;
  virtual void leave() = 0;
};

// How a job is tied to the process that has started it, `nacre run` or `nacre launch`: as a rule the job ends when
// that process goes. Once it is detached its terminal output goes to a file beside its entry in the list of jobs.
class LauncherTie {
 public:
  virtual ~LauncherTie() = default;

  // `nacre run -d`: its launcher waits until detach() is called.
  [[nodiscard]] virtual bool starts_detached() const = 0;
  // Once all tasks have started the job detaches when its launcher goes. From now on output that nobody reads any
  // more goes to the file.
  virtual void outlive_launcher() = 0;
  // The job can be found and reached: only now may its launcher leave it.
  virtual void can_be_found() = 0;
  // Does nothing if the job is detached. On an error there is no file, and the job is as before.
  virtual Result<void> detach() = 0;

  // The job's standard input, valid as long as this object; null if the launcher does not send it.
  virtual JobInput* input() { return nullptr; }
  // On a shell that has come to lead: it gets the input from now on, from an owner that calls write(). The input
  // comes out at this process's own standard input.
  virtual Result<void> take_over_input() { return {}; }

  [[nodiscard]] virtual bool is_detached() const = 0;
  // The directory of the file, in which the job's entry should be as well; "": there is none.
  [[nodiscard]] virtual std::string directory() const = 0;
  // Bytes that could not be written to it.
  [[nodiscard]] virtual std::uint64_t lost_output() const = 0;
};

// How plugins exchange data with those of the job's other shells, and have other shells do things; a part of Host.

// For each text that shells have given, the ranks of these shells.
using Gathered = std::map<std::string, value::Idset>;

class OtherShells {
 public:
  virtual ~OtherShells() = default;

  // Gives `mine` to all shells of the job, and calls `done` once, perhaps before it returns: with what all have
  // given, or with an error if this shell is cut off from the others. Each shell uses each name once; lost shells
  // are left out. If the Registration is destroyed, `mine` is still given, but `done` is not called.
  using WhenGathered = std::function<void(Result<Gathered>)>;
  [[nodiscard]] virtual Registration gather(std::string_view name, std::string mine, WhenGathered done) = 0;
  // The same for the shells up to `last` only, with those of them that have joined while the job ran. `last` comes
  // from last_with_tasks(), called by all of them at the same place in the order of the announcements.
  [[nodiscard]] virtual Registration gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                                  WhenGathered done) = 0;
  // No shell of a higher rank has tasks. (It is the last shell of the job's start, or of a grow.)
  [[nodiscard]] virtual std::uint32_t last_with_tasks() const = 0;

  // Sends to all shells, including this one, perhaps before this returns. All announcements come in one order. A
  // shell that has not run shell.init may miss one. Each costs a message to every shell: for rare things. An error:
  // more than 64 MiB.
  virtual Result<void> announce(std::string_view topic, std::string_view bytes) = 0;
  using Receive = std::function<void(std::string_view topic, std::string_view bytes)>;
  [[nodiscard]] virtual Registration on_announcement(Receive receive) = 0;

  // Messages to and from each single other shell; a job's only shell has no other.
  virtual ShellMessages& messages() = 0;
  virtual void hold_links(const value::Idset& shells) = 0;  // as group::Group, for rehearsals

  // Orders shells to start something. `receive` of each shell that the order names gets it, in one order with
  // announcements. `done` is called once, perhaps before this returns; an error: the order is too long, or this
  // shell is cut off.
  using WhenOrdered = std::function<void(Result<value::ExecAnswer>)>;
  [[nodiscard]] virtual Registration exec(value::ExecOrder order, WhenOrdered done) = 0;
  [[nodiscard]] virtual Registration on_exec(std::function<void(const value::ExecShare&)> receive) = 0;

  virtual bulk::Port* bulk() = 0;  // data between the shells; null: there is no other, and none can join
};

// An exception of the job, as in flux_shell_raise(3).
struct RaisedException {
  std::string type = "exec";  // one word
  int severity = 0;           // 0 ends the job; 1 to 7 are notes
  std::string message;
  std::optional<value::WaitStatus> status;  // gives the job's exit code, whatever the codes of the tasks
  // The end of the task that is the reason: then the job's exit policy decides. The end of a victim, a task that
  // still runs, only names the task that has ended the job.
  std::optional<exits::TaskEnd> task = {};
};

// Gives hosts on which no shell of the job is left back to its manager. A plugin implements it: see
// Host::offer_release().
class NodeRelease {
 public:
  virtual ~NodeRelease() = default;
  // `hosts` has at least one host, and each is given once. `done` is called once, perhaps before this returns, with
  // members for the answer to the requester of the shrink; an empty object: there is nothing to report. Failures
  // are reported there, as the shells have left already.
  virtual void release(const value::Hostlist& hosts, std::function<void(const Json& outcome)> done) = 0;
};

// What plugins may do with the number of the job's shells, while its tasks run; a part of Host.
class Resizing {
 public:
  virtual ~Resizing() = default;

  // Takes shells out of the job. The callback gets news, and at last, perhaps at once, the answer of
  // doc/control.md.
  using WhenShrunk = std::function<void(const Result<Json>& news, bool is_last)>;
  [[nodiscard]] virtual Registration shrink(const value::ShrinkOrder& order, WhenShrunk news) = 0;
  virtual void offer_release(NodeRelease* release) = 0;  // the leader's; null: none

  // On the leader: starts more shells, which are spares. The callback gets news, and at last the answer, as for
  // shrink().
  using WhenGrown = std::function<void(const Result<Json>& news, bool is_last)>;
  virtual void grow(const value::GrowOrder& order, const WhenGrown& news) = 0;
  virtual bool joined_late() const = 0;  // this shell has joined a job that ran

  // In shell.pre-init, on all shells at one place in the order of the announcements: the hosts of these are bad. No
  // task comes to them any more, and the tasks of each go to a spare. By shell with tasks: the spare; an error:
  // none can take them, and they stay.
  using Replaced = std::map<std::uint32_t, Result<std::uint32_t>>;
  virtual Replaced leave_out(const value::Idset& shells) = 0;
  // Later, on such a shell: it ends like a killed shell, and counts as lost.
  virtual void be_lost() = 0;
};

// All calls are made on the loop's thread. The parts are virtual bases, so that a class of its own may implement
// each.
class Host : public virtual Holds, public virtual OtherShells, public virtual Resizing {
 public:
  ~Host() override = default;

  virtual const job::Job& job() const = 0;
  // Sets which of the cores that its node offers the job has there; see Job::choose_cores().
  virtual void choose_cores(const value::Idset& ids) = 0;
  virtual void choose_gpus(const value::Idset& ids) = 0;
  virtual bool standalone() const = 0;
  virtual bool has_input() const = 0;  // whether the job's stdin, which is shell 0's, is not /dev/null
  // flux_shell_get_info(3): jobid, rank, size, ntasks, service, options {verbose, standalone}, jobspec, R.
  virtual Json info() const = 0;

  // Which ends of tasks count as failures, and with which codes. Final once shell.init is called.
  virtual const exits::Policy& exit_policy() const = 0;
  // On the leader: how tasks of all shells have ended so far, each end before job.tasks-exited is called for it. On
  // other shells there is none.
  virtual const exits::Outcomes& outcomes() const = 0;

  // What the initrc and plugins may change before tasks are started. Later changes are allowed, but do not affect
  // tasks that run.
  virtual job::Options& options() = 0;
  virtual job::Environment& environment() = 0;  // the job's, inherited by all tasks

  // The tasks of this shell by local id; empty until the taskmap is final, that is until shell.init.
  virtual std::span<const std::unique_ptr<task::Task>> tasks() = 0;
  // The task that a task.* topic is about; nullptr outside of such a topic
  virtual task::Task* current_task() = 0;
  virtual void kill_tasks(int signum) = 0;  // to all that run
  // To the tasks of all shells: to all tasks of the job, or to those of `ranks`.
  virtual void signal_tasks(int signum, const std::optional<value::Idset>& ranks) = 0;
  // Calls `processes` with each signal that is sent to all tasks: for processes that a plugin has started itself.
  [[nodiscard]] virtual Registration signal_also(std::function<void(int signum)> processes) = 0;

  // The plugin `output` offers what it knows of the output, and withdraws it (null) before it goes. Without it
  // nothing waits for output.
  virtual void offer_output(TaskOutput* output) = 0;
  virtual TaskOutput* task_output() = 0;
  virtual broker::Instance* instance() { return nullptr; }            // whose job shell this is; null: none
  virtual void set_expiration(double /*seconds since the Epoch*/) {}  // which the manager has changed, in R
  // Of a shell that is wanted as leader (job.leader-wanted): the launcher lets it lead, and no other one. Returns
  // the shells without which the job goes on then.
  virtual value::Idset launcher_agrees() { return {}; }
  virtual LauncherTie* launcher_tie() = 0;  // on a leader that `nacre run` or `launch` has started; else null

  // A secret that all shells of the job derive alike for `purpose`, and nobody else can: 64 hexadecimal digits.
  virtual Result<std::string> derived_secret(std::string_view purpose) = 0;

  // The plugin stack, and the directories (separated by colons) in which plugin.load looks for relative names.
  virtual Stack& stack() = 0;
  virtual std::string& plugin_searchpath() = 0;

  // Adds to the context of the event `shell.init` or `shell.start`, before it is posted.
  virtual void add_event_context(std::string_view event, const Json& members) = 0;

  // The directory of the job's record, an absolute path; none: there is no record.
  virtual const std::optional<std::string>& record_directory() const = 0;

  // The events of this shell so far; the leader posts its own to the job's eventlog.
  virtual EventRecord& events() = 0;
  // The leader's events, with what its plugins have added, as they come to this shell. Those before the first
  // follow() may come later.
  virtual EventRecord& job_events() = 0;

  // Ends the job if the severity is 0: the exception is logged and written to the eventlog, and tasks that run are
  // ended (TERM, grace, KILL). The exit code is that of `status`; without it, the tasks' maximum, but at least 1.
  virtual void raise(const RaisedException& exception) = 0;
  // The same for an error of the shell itself; `exit_code` is the job's.
  virtual void die(int exit_code, std::string_view component, std::string_view message) = 0;
  virtual bool ending() const = 0;  // the job is being ended, by raise(), die() or otherwise
  // The job ends perhaps for this shell alone: it cannot reach the others, which go on without it where they can.
  virtual bool is_cut_off() const { return false; }
  // On the leader: calls `receive` with exits::summary(), and what its tasks have used as "used" (nacre-report(1),
  // "USAGE" has the members), once the job has ended on all shells, after shell.exit. Holds that `receive` takes
  // are waited for.
  [[nodiscard]] virtual Registration on_ended(std::function<void(const Json& summary)> receive) = 0;
  virtual std::optional<exits::TaskEnd> ended_by() const = 0;  // the task whose end is why the job is being ended
  // On the leader, before the job has ended: `first` was the first failure (exits::first_of). The exit policy
  // `first` and exits::summary() go by it; without it, by the failure that was learnt first.
  virtual void set_first_failure(const exits::TaskEnd& /*first*/) {}
  // Whether this signal was sent to all tasks from outside.
  virtual bool sent_to_tasks(int signum) const = 0;

  virtual timeline::Recorder& timeline() = 0;  // what has happened when; off unless the job has the option
  virtual Log& log() = 0;
  virtual event::Loop& loop() = 0;
  virtual event::Children& children() = 0;
};

// The job's standard input, if its launcher sends it and this shell has it; else null.
[[nodiscard]] inline JobInput* launchers_input(Host& host) {
  LauncherTie* tie = host.launcher_tie();
  return tie == nullptr ? nullptr : tie->input();
}

// A builtin logs with this: `host.log()` with the plugin's name.
template <typename... Args>
void log(Host& host, const Plugin& plugin, Level level, fmt::format_string<Args...> format, Args&&... args) {
  host.log().log(level, plugin.name(), format, std::forward<Args>(args)...);
}

}  // namespace nacre::plugin
