// SPDX-License-Identifier: Apache-2.0
//
// The part of a Shell that its plugins see and that decides nothing: what the job is, what holds it, its record,
// and announcements to all shells.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "core/shell_config.hpp"
#include "core/shell_launched.hpp"
#include "group/event_log.hpp"
#include "join/shell_process.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

class ShellHost : public plugin::Host {
 public:
  const job::Job& job() const override { return job_; }
  void choose_cores(const value::Idset& ids) override { job_.choose_cores(ids); }
  void choose_gpus(const value::Idset& ids) override { job_.choose_gpus(ids); }
  bool standalone() const override { return standalone_; }
  bool has_input() const override { return config_.has_input; }
  Json info() const override;
  const exits::Policy& exit_policy() const override { return exit_policy_; }
  job::Options& options() override { return options_; }
  job::Environment& environment() override { return environment_; }
  void signal_tasks(int signum, const std::optional<value::Idset>& ranks) override {
    group_->signal(signum, ranks);
  }
  plugin::Registration signal_also(std::function<void(int signum)> processes) override;
  void offer_output(plugin::TaskOutput* output) override;
  plugin::TaskOutput* task_output() override { return task_output_; }
  plugin::Launched* launched() override { return launched_ ? &*launched_ : nullptr; }
  plugin::Registration on_ended(std::function<void(const Json& summary)> receive) override {
    return ended_.add(std::move(receive));
  }
  std::string& plugin_searchpath() override { return config_.plugin_searchpath; }
  int hold(std::string_view name) override;
  Result<void> release(std::string_view name) override;
  int hold_start(std::string_view name) override;
  Result<void> release_start(std::string_view name) override;
  void start_after_all() override { starts_after_all_ = true; }
  void add_event_context(std::string_view event, const Json& members) override;
  const std::optional<std::string>& record_directory() const override { return config_.record_directory; }
  plugin::EventRecord& events() override { return events_; }
  plugin::Registration gather(std::string_view name, std::string mine, WhenGathered done) override;
  plugin::Registration gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                    WhenGathered done) override;
  std::uint32_t last_with_tasks() const override;
  Result<std::string> derived_secret(std::string_view purpose) override {
    return TRY(group_->secret())->derive(purpose);
  }
  Result<void> announce(std::string_view topic, std::string_view bytes) override;
  plugin::Registration on_announcement(Receive receive) override;
  void hold_links(const value::Idset& shells) override { group_->hold_links(shells); }
  plugin::ShellMessages& messages() override { return shell_messages_; }
  plugin::Registration exec(value::ExecOrder order, WhenOrdered done) override;
  plugin::Registration on_exec(std::function<void(const value::ExecShare&)> receive) override;
  bulk::Port* bulk() override { return group_->bulk(); }
  timeline::Recorder& timeline() override { return process_.timeline; }
  Log& log() override { return log_; }
  event::Loop& loop() override { return *process_.loop; }
  event::Children& children() override { return *process_.children; }

 protected:
  ShellHost(join::ShellProcess& process, bool standalone, job::Job&& job, job::Options&& options,
            ShellConfig&& config, Log& log);

  [[nodiscard]] bool has_siblings() const { return job_.shells() > 1 && !standalone_; }
  Result<void> open_record();
  // Records an event of the job, for plugins and in the leader's eventlog. The eventlog ends with the first error.
  Result<void> post(std::string_view event, Json context);

  join::ShellProcess& process_;
  group::Group* group_;
  Log& log_;
  ShellConfig config_;
  bool standalone_;
  job::Job job_;
  job::Options options_;
  job::Environment environment_;  // of the job
  exits::Policy exit_policy_;     // `max` until the taskmap is final
  plugin::CallbackList<int> signalled_also_;
  plugin::CallbackList<const Json&> ended_;
  plugin::TaskOutput* task_output_ = nullptr;
  std::optional<ShellLaunched> launched_;
  plugin::CallbackList<std::string_view, std::string_view> announced_to_;  // topic and bytes
  plugin::ShellMessages shell_messages_;
  plugin::PendingAnswers<Result<plugin::Gathered>> gathers_;
  plugin::PendingAnswers<Result<value::ExecAnswer>> orders_;
  plugin::CallbackList<const value::ExecShare&> ordered_to_;
  std::map<std::string, int, std::less<>> holds_, start_holds_;
  bool starts_after_all_ = false;                           // since the init barrier: whether any shell wants that
  std::map<std::string, Json, std::less<>> event_context_;  // by event
  plugin::EventRecord events_;
  std::optional<group::EventLog> eventlog_;  // the leader's
};

}  // namespace nacre::core
