// SPDX-License-Identifier: Apache-2.0
//
// What the shell offers to plugins: the one face that builtins, loaded objects and Lua plugins all get. The shell
// implements it; tests have a FakeHost (t/kit).
//
// References stay valid until the plugin is destroyed. All calls are made on the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/log.hpp"
#include "base/result.hpp"
#include "bulk/port.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "exits/policy.hpp"
#include "job/job.hpp"
#include "plugin/event_record.hpp"
#include "plugin/registration.hpp"
#include "plugin/stack.hpp"
#include "plugin/task_output.hpp"
#include "task/task.hpp"
#include "value/idset.hpp"
#include "value/wait_status.hpp"

namespace nacre::plugin {

// A job-level exception, as flux_shell_raise(3).
struct Exception {
  std::string type = "exec";  // one word
  int severity = 0;           // 0 ends the job; 1 to 7 are notes
  std::string message;
  std::optional<value::WaitStatus> status;  // the job's exit code is this one's, whatever the tasks' are
  std::optional<exits::TaskEnd> task = {};  // the task whose end it is: then the job's exit policy decides
};

// What the shells of a job have given, by the bytes: the ranks of the shells that gave them.
using Gathered = std::map<std::string, value::Idset>;

class Host {
 public:
  virtual ~Host() = default;

  // Facts.
  virtual const job::Job& job() const = 0;
  virtual bool standalone() const = 0;
  virtual bool has_input() const = 0;  // whether the stdin of shell 0, which is the job's, is more than /dev/null
  // flux_shell_get_info(3): jobid, rank, size, ntasks, service, options {verbose, standalone}, jobspec, R.
  virtual Json info() const = 0;

  // Which ends of tasks count as failures, and as what. Final once shell.init is called.
  virtual const exits::Policy& exit_policy() const = 0;

  // What initrc and plugins may change before tasks are started. A change later is allowed and has no effect on
  // tasks that run.
  virtual job::Options& options() = 0;
  virtual job::Environment& environment() = 0;  // the job's, inherited by all tasks

  // Tasks of this shell by local id; empty before the taskmap is final, that is before shell.init.
  virtual std::span<const std::unique_ptr<task::Task>> tasks() = 0;
  virtual task::Task* current_task() = 0;   // the one that a task.* topic is about; nullptr outside of one
  virtual void kill_tasks(int signum) = 0;  // all that run
  // Calls `processes` with each signal that all tasks are sent, as long as the Registration is there: for processes of the
  // job that a plugin has started.
  [[nodiscard]] virtual Registration signal_also(std::function<void(int signum)> processes) = 0;

  // What the plugin `output` knows, as long as it is there; null: nothing is known, so nothing is waited for. It has to be taken back
  // (null) before it goes.
  virtual void offer_output(TaskOutput* output) = 0;
  virtual TaskOutput* task_output() = 0;

  // The plugin stack, and where plugin.load looks for relative names (directories separated by colons).
  virtual Stack& stack() = 0;
  virtual std::string& plugin_searchpath() = 0;

  // Work that outlives the last task: the shell does not finish before every named reference is released. hold()
  // returns how many of this name there are now.
  virtual int hold(std::string_view name) = 0;
  virtual Result<void> release(std::string_view name) = 0;
  // Work that must be over before the first task is started, begun in shell.init or shell.post-init: the shell
  // waits, serving its loop, until every named reference is released.
  virtual int hold_start(std::string_view name) = 0;
  virtual Result<void> release_start(std::string_view name) = 0;

  // Adds members to the context of the event `shell.init` or `shell.start`, before it is posted.
  virtual void add_event_context(std::string_view event, const Json& members) = 0;

  // Where the job's record is kept, an absolute path; none: nowhere.
  virtual const std::optional<std::string>& record_directory() const = 0;

  // The events that this shell has posted so far.
  virtual EventRecord& events() = 0;

  // Ends the job: severity 0 is logged, written to the eventlog, and the tasks are ended (TERM, grace, KILL).
  // Before tasks run, the shell exits. The exit code is that of `status`, else the tasks' maximum, but at least 1.
  virtual void raise(const Exception& exception) = 0;
  // The same for an error of the shell itself, with the exit code to use.
  virtual void die(int exit_code, std::string_view component, std::string_view message) = 0;
  virtual bool ending() const = 0;  // the job is being ended, by either
  // The leader's: calls `receive` with exits::summary() once the job has ended on all shells, after shell.exit. What is held
  // by then is waited for.
  [[nodiscard]] virtual Registration on_ended(std::function<void(const Json& summary)> receive) = 0;
  // The task whose end is why the job is being ended; none: it is not, or for something else.
  virtual std::optional<exits::TaskEnd> ended_by() const = 0;
  // All tasks were sent this signal from outside.
  virtual bool sent_to_tasks(int signum) const = 0;

  // Gives `mine` to all shells of the job, and calls `done` once, perhaps before it returns: with what all have given, or with
  // an error if this shell is cut off from the others. Each shell uses each name once; those that are lost are left out.
  // Without the Registration `mine` is given all the same, but `done` is not called.
  using WhenGathered = std::function<void(Result<Gathered>)>;
  [[nodiscard]] virtual Registration gather(std::string_view name, std::string mine, WhenGathered done) = 0;

  // Tells all shells of the job, this one included. All hear what any of them tells in one order, from the loop or before this
  // returns; what is told before a shell has run shell.init may pass it by. An error: more than 64 MiB. Each costs a message to
  // every shell, so it is for what is rare.
  virtual Result<void> announce(std::string_view topic, std::string_view bytes) = 0;
  // Calls `receive` with each announcement, as long as the Registration is there.
  using Receive = std::function<void(std::string_view topic, std::string_view bytes)>;
  [[nodiscard]] virtual Registration on_announcement(Receive receive) = 0;

  // Bulk data between the shells of the job; null where this is the only one.
  virtual bulk::Port* bulk() = 0;

  virtual Log& log() = 0;
  virtual event::Loop& loop() = 0;
  virtual event::Children& children() = 0;
};

// Where a builtin logs: `host.log()` with its name.
template <typename... Args>
void log(Host& host, const Plugin& plugin, Level level, fmt::format_string<Args...> format, Args&&... args) {
  host.log().log(level, plugin.name(), format, std::forward<Args>(args)...);
}

}  // namespace nacre::plugin
