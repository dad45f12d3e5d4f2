// SPDX-License-Identifier: Apache-2.0
//
// A Host without a shell, for tests of plugins: a job of `tasks` one-core tasks on one node, tasks that are never
// started, and a record of what the plugin asked for.
#pragma once

#include "fake_holds.hpp"
#include "fake_shells.hpp"
#include "plugin/host.hpp"

namespace nacre::kit {

// The part of a FakeHost that records how a plugin wants the job's shells to change.
class FakeResizing : public virtual plugin::Resizing {
 public:
  plugin::Registration shrink(const value::ShrinkOrder& order, WhenShrunk news) override {
    shrink_orders.push_back(order);
    return shrunk_.add(std::move(news));
  }
  void offer_release(plugin::NodeRelease* given) override { node_release = given; }
  void grow(const value::GrowOrder&, const WhenGrown& news) override {
    news(Error{ENOTSUP, "no grows here"}, true);
  }
  bool joined_late() const override { return is_newcomer; }
  Replaced leave_out(const value::Idset& shells) override {
    left_out.push_back(shells);
    return replaced;
  }
  void be_lost() override { is_lost = true; }

  void shrunk(const Result<Json>& news, bool is_last) { shrunk_.call(news, is_last); }  // what a test does with it
  bool is_newcomer = false;
  Replaced replaced;  // what leave_out() returns

  std::vector<value::ShrinkOrder> shrink_orders;  // what the plugin has ordered
  plugin::NodeRelease* node_release = nullptr;
  std::vector<value::Idset> left_out;  // of each leave_out()
  bool is_lost = false;

 private:
  plugin::CallbackList<const Result<Json>&, bool> shrunk_;
};

std::string jobspec_of(std::uint32_t tasks);  // one core each, of a program that is never started
std::string fake_nodes(std::uint32_t nodes,
                       std::uint32_t cores);  // an R: fake0, fake1 ..., with cores 0..cores-1 each

class FakeHost : public plugin::Host, public FakeHolds, public FakeShells, public FakeResizing {
 public:
  static constexpr event::Seconds kTimeout{60};

  // cores 0..tasks-1 on node "fake0".
  explicit FakeHost(std::uint32_t tasks = 4);
  // With the test's own jobspec and R.
  FakeHost(std::string_view jobspec, std::string_view resources, std::uint32_t shell_rank = 0);
  ~FakeHost() override;

  const job::Job& job() const override { return job_; }
  void choose_cores(const value::Idset& ids) override { job_.choose_cores(ids); }
  void choose_gpus(const value::Idset& ids) override { job_.choose_gpus(ids); }
  bool standalone() const override { return true; }
  bool has_input() const override { return true; }
  Json info() const override;
  job::Options& options() override { return options_; }
  job::Environment& environment() override { return environment_; }
  std::span<const std::unique_ptr<task::Task>> tasks() override { return tasks_; }
  task::Task* current_task() override { return current_; }
  void kill_tasks(int signum) override;
  void signal_tasks(int signum, const std::optional<value::Idset>& ranks) override;
  plugin::Registration signal_also(std::function<void(int signum)> processes) override {
    return signalled_also_.add(std::move(processes));
  }
  void offer_output(plugin::TaskOutput* output) override { task_output_ = output; }
  plugin::TaskOutput* task_output() override { return task_output_; }
  plugin::LauncherTie* launcher_tie() override { return tie; }
  plugin::Registration on_ended(std::function<void(const Json& summary)> receive) override {
    return ended_.add(std::move(receive));
  }
  Result<std::string> derived_secret(std::string_view purpose) override {
    return fmt::format("{:064x}", std::hash<std::string_view>()(purpose));
  }
  plugin::Stack& stack() override { return stack_; }
  std::string& plugin_searchpath() override { return searchpath_; }
  void add_event_context(std::string_view event, const Json& members) override;
  const std::optional<std::string>& record_directory() const override { return records; }
  plugin::EventRecord& events() override { return events_; }
  plugin::EventRecord& job_events() override { return events_; }
  const exits::Policy& exit_policy() const override { return policy; }
  const exits::Outcomes& outcomes() const override { return ends; }
  void raise(const plugin::RaisedException& exception) override { exceptions.push_back(exception); }
  void die(int exit_code, std::string_view component, std::string_view message) override;
  bool ending() const override;
  bool is_cut_off() const override { return cut_off; }
  std::optional<exits::TaskEnd> ended_by() const override { return cause; }
  void set_first_failure(const exits::TaskEnd& failed) override { first = failed; }
  bool sent_to_tasks(int signum) const override { return std::count(signals.begin(), signals.end(), signum) > 0; }
  timeline::Recorder& timeline() override { return recorder; }
  Log& log() override { return log_; }
  event::Loop& loop() override { return *loop_; }
  event::Children& children() override { return *children_; }

  // What a test does with it.
  void make_tasks();                         // as the shell does before shell.init, from the taskmap of job()
  Result<int> call(std::string_view topic);  // on the whole stack
  Result<int> call_task(std::string_view topic, std::size_t local_id);  // with current_task() set
  void ended(const Json& summary) { ended_.call(summary); }             // to those that listen here
  // Makes the tasks, and lets them run; only the given processes are there, by local id.
  void start_tasks(const std::map<std::size_t, pid_t>& pids = {});
  Result<int> end_task(std::size_t local_id, const value::WaitStatus& status);  // and calls task.exit
  // These tasks have ended, perhaps on other shells. Returns how many handlers job.tasks-exited has.
  Result<int> report_ends(const value::Idset& ranks, const exits::Record& record);
  // Runs the loop until nothing is left to wait for. False if that takes longer than kTimeout.
  bool run_loop();
  // Runs the loop until done() is true, which is called now and then. False if that takes longer than kTimeout.
  bool serve(const std::function<bool()>& done);
  std::optional<event::Seconds> next_timer();  // the time from its start until the first timer is due
  job::Job& mutable_job() { return job_; }
  bool cut_off = false;
  std::optional<std::string> records;  // the record directory
  plugin::LauncherTie* tie = nullptr;
  timeline::Recorder recorder;

  // What the plugin did.
  std::vector<int> signals;
  std::vector<std::pair<int, std::string>> job_signals;  // of signal_tasks
  std::vector<plugin::RaisedException> exceptions;
  exits::Policy policy;
  exits::Outcomes ends;  // of all tasks
  std::optional<exits::TaskEnd> cause;
  std::optional<exits::TaskEnd> first;  // of set_first_failure
  std::vector<std::string> deaths;      // "CODE COMPONENT: MESSAGE"
  std::map<std::string, Json> event_context;
  std::vector<std::string> logged;  // "LEVEL COMPONENT: MESSAGE", down to trace

 private:
  std::unique_ptr<event::Loop> loop_;
  std::unique_ptr<event::Children> children_;
  Log log_;
  job::Options options_;
  job::Environment environment_;
  std::string searchpath_;
  plugin::EventRecord events_;
  std::vector<std::unique_ptr<task::Task>> tasks_;
  plugin::CallbackList<int> signalled_also_;
  plugin::CallbackList<const Json&> ended_;
  plugin::TaskOutput* task_output_ = nullptr;
  task::Task* current_ = nullptr;
  plugin::Stack stack_;  // last: its plugins may hold references to all above
};

}  // namespace nacre::kit
