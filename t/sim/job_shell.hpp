// SPDX-License-Identifier: Apache-2.0
//
// A small model of what one shell does beside its overlay node: core/shell.cpp, shell_ending.cpp, shell_tasks.cpp
// and join/leaving.cpp without plugins and processes, and what group::OverlayDriver makes of the node's effects.
// How the job ends is up to the real exits::JobEnd, exits::Outcomes and exits::Policy; what the shells send is in
// the real texts. JobElastic has what goes on as the job changes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "elastic/growth.hpp"
#include "exits/job_end.hpp"
#include "group/statements.hpp"
#include "job_clients.hpp"
#include "job_task.hpp"
#include "job_witness.hpp"

namespace nacre::sim {

inline constexpr Time kGrace = 3 * kSecond;          // of tasks that are told to end
inline constexpr Time kUnjoinedGrace = 2 * kSecond;  // as leaving.cpp has it

class JobElastic;
class JobLeader;

class JobShell {
 public:
  // `before`: of one that joins later, the shells that have joined until its grow began.
  JobShell(World& world, const JobPlan& plan, Id id, Witness& witness, const elastic::Growth* before = nullptr);
  ~JobShell();

  void born();  // its process has been started, with its node
  // From the node: what it wants is done later.
  void effect(const Effect& effect);
  void stepped();
  void tell_news();  // what it wants, before anything else is done to the shell

  void signal(int signum, bool from_launcher);
  void launcher_gone();
  void starter_gone();
  void child_ended(Id child);  // one that this shell has started
  void crash();

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] bool is_over() const { return phase_ == Phase::over; }
  [[nodiscard]] bool has_crashed() const { return crashed_; }
  [[nodiscard]] bool has_joined() const { return joined_; }
  [[nodiscard]] bool has_given_up() const { return giving_up_; }  // it has not become a Shell
  [[nodiscard]] std::optional<int> exit_code() const { return exit_code_; }
  [[nodiscard]] std::optional<int> learnt() const { return code_; }  // the job's code
  [[nodiscard]] const exits::JobEnd& end() const { return end_; }
  [[nodiscard]] const exits::Outcomes& all() const { return all_; }
  // Of the leader, which has ended in order.
  void check_clients() { clients_.check(all_, all_ranks()); }
  [[nodiscard]] bool runs_tasks() const { return running_ > 0; }
  [[nodiscard]] JobElastic* elastic() const { return elastic_.get(); }
  void step_on() { go_on(); }  // something has been done to it

 private:
  friend class JobElastic;
  friend class JobLeader;

  using Task = JobTask;
  [[nodiscard]] bool leads() const { return id_ == 0; }
  [[nodiscard]] bool is_late() const { return id_ >= plan_.members; }
  void say(const std::string& line) const;

  // The phases (job_shell.cpp). step(): whether it came further.
  void go_on();
  bool step();
  bool step_to_the_end();
  bool join();
  bool wait_for(const std::string& barrier, Phase next);
  bool is_past(const std::string& barrier);  // and enters it
  bool handle(Place place, Phase next), joins(Place place), all_started();
  void enter_phase(Phase phase);
  bool call(Place place);  // false: an error is returned
  bool fail(const Failure& how);
  void later(Time delay, const std::function<void()>& what);
  bool go_to(Phase phase);
  void start_batch(std::size_t first);
  void take_up(Task& task);
  void give_up(const exits::Cause& why, bool is_logged);
  void leave_job();
  [[nodiscard]] int job_code() const;
  void leave();
  void look_whether_it_may_go();
  void end_process(int code);

  // How it ends (job_ending.cpp).
  bool end_job(const exits::Cause& cause, const std::string& type);
  void on_exception(const group::JobException& exception);
  void on_cut_off(const std::string& why);
  void on_lost(Id shell);
  bool end_tasks(Time grace = kGrace);
  void kill_again();
  void signal_tasks(int signum);  // from outside
  void kill_tasks(int signum);
  void kill(Task& task, int signum);
  void end_task(Task& task, int raw);
  void end_for_good(Task& task);
  [[nodiscard]] exits::Record record_of(const Task& task) const;
  void record_end(Id rank, const exits::Record& record);
  void note_ended(const Idset& ranks, const exits::Record& record);  // leader
  [[nodiscard]] Idset all_ranks() const;

  // The group.
  void enter(const std::string& barrier);
  void ask(RequestBody body);
  void deliver(const Entry& entry);
  void cut_off(const std::string& why);
  void end_collectives();
  void serve();
  void tell(std::function<void()> what) { news_.push_back(std::move(what)); }
  void tell_job(std::function<void()> what) { (serving_ ? news_ : kept_).push_back(std::move(what)); }

  World& world_;
  const JobPlan& plan_;
  Id id_;
  Witness& witness_;
  Phase phase_ = Phase::unborn;
  exits::JobEnd end_;
  exits::Outcomes mine_, all_;
  JobClients clients_;      // the leader's
  std::deque<Task> tasks_;  // by start on this shell; they stay where they are
  std::size_t running_ = 0;
  Idset victims_;
  bool shutdown_ = false, busy_ = false;  // busy_: in a handler
  bool executed_ = false;                 // the phase finish has come to its end
  bool starter_gone_ = false, crashed_ = false, giving_up_ = false, joined_ = false, late_ = false;
  double interrupted_at_ = -exits::JobEnd::kInterruptWindow - 1;  // seconds
  std::optional<int> exit_code_;
  std::map<std::string, bool, std::less<>> barriers_;  // entered: whether they are over
  std::set<std::pair<Place, How>> failed_;             // a handler fails once

  std::optional<std::size_t> gathered_;  // how many have joined, once the collective is over
  std::set<std::string, std::less<>> waiting_;
  std::deque<std::function<void()>> news_, kept_;
  bool scheduled_ = false, telling_ = false, serving_ = false;
  bool cut_off_ = false, removed_ = false;  // removed_: as it has left the job
  Scope own_scope_{};                       // of the collectives of those that have joined with it
  bool finished_ = false, leaving_ = false, gives_up_absent_ = false;
  std::optional<int> code_;
  std::unique_ptr<JobElastic> elastic_;  // none: the job does not change
};

}  // namespace nacre::sim
