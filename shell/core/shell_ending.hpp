// SPDX-License-Identifier: Apache-2.0
//
// The parts of a shell, and how the job ends for them: exits::JobEnd decides, and this acts.
//
//   shell_tasks.hpp   its tasks: their start and their end
//   shell_group.hpp   the other shells: barriers, losses, the ends of all tasks
//   shell_shrink.hpp  shells that leave before the job's end
//   shell_grow.hpp    shells that join while it runs
//   shell_replace.hpp shells that start tasks of lost shells again
//   shell_restart.hpp tasks that have ended, and are started again where they are
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "boot/identity.hpp"
#include "core/shell_group.hpp"
#include "core/shell_grow.hpp"
#include "core/shell_host.hpp"
#include "core/shell_replace.hpp"
#include "core/shell_restart.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "core/waited_usage.hpp"
#include "script/interpreter.hpp"

namespace nacre::core {

class ShellEnding : public ShellHost {
 public:
  std::span<const std::unique_ptr<task::Task>> tasks() override { return tasks_.all(); }
  task::Task* current_task() override { return tasks_.current(); }
  void kill_tasks(int signum) override;
  plugin::Registration shrink(const value::ShrinkOrder& order, WhenShrunk news) override {
    return shrink_.ask(order, std::move(news));
  }
  void grow(const value::GrowOrder& order, const WhenGrown& news) override { grow_.grow(order, news); }
  bool joined_late() const override { return process_.joins_late; }
  void offer_release(plugin::NodeRelease* release) override { shrink_.offer_release(release); }
  plugin::Stack& stack() override { return stack_; }
  void raise(const plugin::RaisedException& exception) override;
  void die(int exit_code, std::string_view component, std::string_view message) override;
  bool ending() const override { return end_.is_ending(); }
  std::optional<exits::TaskEnd> ended_by() const override {
    return end_.cause() ? end_.cause()->task : std::nullopt;
  }
  void set_first_failure(const exits::TaskEnd& first) override { end_.set_first(first); }
  bool sent_to_tasks(int signum) const override { return end_.has_sent(signum); }

 protected:
  ShellEnding(join::ShellProcess& process, boot::Identity&& identity, job::Job&& job, job::Options&& options,
              ShellConfig&& config, Log& log);
  ~ShellEnding() override;

  void fail(const Error& why);
  void on_exception(const group::JobException& exception);
  void on_cut_off(const Error& why);
  void on_signal(int signum, join::Signals::From from);
  Result<void> post_first_end();
  [[nodiscard]] int own_code() const;  // by the tasks of this shell
  void close_job();
  int leave_job();

  exits::JobEnd& end_;
  std::optional<Error> failure_;             // of a job's only shell, for the caller
  event::Seconds grace_{};                   // between SIGTERM and SIGKILL
  bool has_started_ = false;                 // the event shell.start has been posted
  std::optional<exits::TaskEnd> first_end_;  // leader: of all tasks
  WaitedUsage used_;                         // leader: likewise, once the shells have given it
  value::Idset gave_none_;                   // shells that were gone then
  ShellTasks tasks_;
  ShellGroup shells_;
  ShellShrink shrink_;
  ShellRestart restart_;
  ShellReplace replace_;
  ShellGrow grow_;
  std::unique_ptr<script::Interpreter> interpreter_;
  plugin::Stack stack_;  // last: plugins may hold references to all above

 private:
  void fail_to_join(const exits::Cause& cause);
  bool end_job(const exits::Cause& cause, std::string_view type);
  void on_thrown(const Component* component, std::string_view what);
  void log_leaving(std::string_view component, std::string_view message);
  [[nodiscard]] exits::Work work_for(join::Signals::From from) const;
  void end_tasks();
  [[nodiscard]] int job_code(const exits::Outcomes& all) const;
  void report_end(int code);  // on the leader, for the whole job

  std::set<std::string> thrown_;  // what on_thrown() has told
};

}  // namespace nacre::core
