// SPDX-License-Identifier: Apache-2.0
//
// What the shell offers to plugins: builtins, loaded objects and Lua plugins all get this interface. The shell
// implements it; tests have a FakeHost (t/kit). References stay valid until the plugin is destroyed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/log.hpp"
#include "base/result.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "exits/policy.hpp"
#include "job/job.hpp"
#include "plugin/event_record.hpp"
#include "plugin/holds.hpp"
#include "plugin/launched.hpp"
#include "plugin/other_shells.hpp"
#include "plugin/raised_exception.hpp"
#include "plugin/registration.hpp"
#include "plugin/resizing.hpp"
#include "plugin/stack.hpp"
#include "plugin/task_output.hpp"
#include "task/task.hpp"
#include "timeline/recorder.hpp"
#include "value/idset.hpp"
#include "value/wait_status.hpp"

namespace nacre::plugin {

// All calls are made on the loop's thread. The parts are virtual bases, so that a class of its own may implement
// each.
class Host : public virtual Holds, public virtual OtherShells, public virtual Resizing {
 public:
  ~Host() override = default;

  virtual const job::Job& job() const = 0;
  // Which of what its node offers the job has there; see Job::choose_cores().
  virtual void choose_cores(const value::Idset& ids) = 0;
  virtual void choose_gpus(const value::Idset& ids) = 0;
  virtual bool standalone() const = 0;
  virtual bool has_input() const = 0;  // whether the job's stdin, which is shell 0's, is not /dev/null
  // flux_shell_get_info(3): jobid, rank, size, ntasks, service, options {verbose, standalone}, jobspec, R.
  virtual Json info() const = 0;

  // Which ends of tasks count as failures, and with which codes. Final once shell.init is called.
  virtual const exits::Policy& exit_policy() const = 0;

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
  // Calls `processes` with each signal that is sent to all tasks: for those that a plugin has started itself.
  [[nodiscard]] virtual Registration signal_also(std::function<void(int signum)> processes) = 0;

  // What the plugin `output` knows of the output; null: nothing, so nothing waits. It withdraws it before it goes.
  virtual void offer_output(TaskOutput* output) = 0;
  virtual TaskOutput* task_output() = 0;
  virtual Launched* launched() = 0;  // on a leader that `nacre run` or `launch` has started; else null

  // A secret that all shells of the job derive alike for `purpose`, and nobody else can: 64 hexadecimal digits.
  virtual Result<std::string> derived_secret(std::string_view purpose) = 0;

  // The plugin stack, and the directories (separated by colons) in which plugin.load looks for relative names.
  virtual Stack& stack() = 0;
  virtual std::string& plugin_searchpath() = 0;

  // To the context of the event `shell.init` or `shell.start`, before it is posted.
  virtual void add_event_context(std::string_view event, const Json& members) = 0;

  // The directory of the job's record, an absolute path; none: there is no record.
  virtual const std::optional<std::string>& record_directory() const = 0;

  // The events that this shell has posted so far.
  virtual EventRecord& events() = 0;

  // Ends the job if the severity is 0: that is logged and written to the eventlog; tasks are ended (TERM, grace,
  // KILL), if they run already. The exit code is that of `status`, else the tasks' maximum, but at least 1.
  virtual void raise(const RaisedException& exception) = 0;
  // The same for an error of the shell itself, with the job's exit code.
  virtual void die(int exit_code, std::string_view component, std::string_view message) = 0;
  virtual bool ending() const = 0;  // the job is being ended, by raise(), die() or otherwise
  // On the leader: calls `receive` with exits::summary(), and what its tasks have used as "used" (nacre-report(1),
  // "USAGE" has the members), once the job has ended on all shells, after shell.exit.
  // Holds that are taken then are waited for.
  [[nodiscard]] virtual Registration on_ended(std::function<void(const Json& summary)> receive) = 0;
  virtual std::optional<exits::TaskEnd> ended_by() const = 0;  // the task whose end is why the job is being ended
  // On the leader, before the job has ended: of what has failed this was the first (exits::first_of), which the
  // exit policy `first` and exits::summary() go by. Else they go by what was learnt first.
  virtual void set_first_failure(const exits::TaskEnd& /*first*/) {}
  // Whether this signal was sent to all tasks from outside.
  virtual bool sent_to_tasks(int signum) const = 0;

  virtual timeline::Recorder& timeline() = 0;  // what has happened when; off unless the job has the option
  virtual Log& log() = 0;
  virtual event::Loop& loop() = 0;
  virtual event::Children& children() = 0;
};

// A builtin logs with this: `host.log()` with the plugin's name.
template <typename... Args>
void log(Host& host, const Plugin& plugin, Level level, fmt::format_string<Args...> format, Args&&... args) {
  host.log().log(level, plugin.name(), format, std::forward<Args>(args)...);
}

}  // namespace nacre::plugin
