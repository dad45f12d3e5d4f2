// SPDX-License-Identifier: Apache-2.0
//
// The shells of a job as one Shell waits for them: barriers, the shells that are lost, and how the tasks of all of them end.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "exits/outcomes.hpp"
#include "join/shell_process.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

class ShellGroup {
 public:
  // Both must outlive it. `process` has a group by serve().
  ShellGroup(plugin::Host& host, join::ShellProcess& process) : host_(host), process_(process) {}

  // From here on, what comes from the group and from the launcher is handled. on_lost and on_tasks are this object's own.
  void serve(group::Group::Callbacks callbacks);

  [[nodiscard]] bool has_others() const { return host_.job().shells() > 1 && !host_.standalone(); }
  [[nodiscard]] bool leads() const { return host_.job().shell_rank == 0 || !has_others(); }

  // The loop runs until something is so, or the job is being ended.
  void wait(const std::function<bool()>& done);
  // The same until all shells have come here: some of a job that is being ended may never come.
  void barrier(const std::string& name);
  // One that all shells come to, however their job ends.
  void last_barrier(const std::string& name);
  [[nodiscard]] bool has_entered(const std::string& barrier) const { return barriers_.contains(barrier); }
  [[nodiscard]] bool has_passed(const std::string& barrier) const;

  // To the tasks of all shells, which run by now: what the launcher sent before.
  void send_kept_signals();

  // To plugins: which shells were lost before they could do something about it. From here on each is reported at once.
  void report_losses();
  // The leader's tasks may be the first to end.
  void wait_for_all_tasks();
  // Leader: how the tasks of all shells have ended.
  [[nodiscard]] const exits::Outcomes& outcomes() const { return outcomes_; }
  // The same at the end of the job: what has no record by then was never started.
  const exits::Outcomes& final_outcomes();

 private:
  void launcher_signal(int signum);
  void enter(const std::string& name);
  void on_lost(group::Rank rank);
  void note_ended(const value::Idset& tasks, const exits::Record& record);
  void notify_plugins(const std::string& topic, const Json& what);

  plugin::Host& host_;
  join::ShellProcess& process_;
  std::map<std::string, bool> barriers_;  // that were entered: whether they are over
  value::Idset lost_;                     // shells
  bool reports_losses_ = false;           // plugins have run shell.post-init
  exits::Outcomes outcomes_;
};

}  // namespace nacre::core
