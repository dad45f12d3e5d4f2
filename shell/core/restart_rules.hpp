// SPDX-License-Identifier: Apache-2.0
//
// Whether a task of this shell that has ended starts again, by the option restart and by how it has ended; and
// whether it can do so alone. An end by a signal that a user has sent is none of those after which it does.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "core/shell_tasks.hpp"
#include "job/restart_option.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class RestartRules {
 public:
  using Rank = value::Idset::Id;

  // All have to outlive it.
  RestartRules(plugin::Host& host, const ShellTasks& tasks, const job::RestartOption& option)
      : host_(host), tasks_(tasks), option_(option) {}

  // Who sends one of these wants the task to end, however it does.
  [[nodiscard]] static bool is_to_end(int signum);
  void note_signal(Rank rank, int signum) { signals_[rank].insert(signum); }
  void forget_signals(Rank rank) { signals_.erase(rank); }  // those from now on count

  // `is_ordered`: nacre restart has ended it.
  [[nodiscard]] bool wants(const task::Task& task, bool is_ordered) const;
  // Whether all tasks of the job have to start with this one; an error: it cannot start again.
  [[nodiscard]] Result<bool> takes_all(const task::Task& task) const;
  // Whether PMI, or this plugin of it, demands that; an error likewise.
  [[nodiscard]] Result<bool> pmi_takes_all(Rank rank, std::string_view by = "") const;

 private:
  [[nodiscard]] bool is_chosen(const exits::Record& record) const;
  [[nodiscard]] std::string why_not_node() const;

  plugin::Host& host_;
  const ShellTasks& tasks_;
  const job::RestartOption& option_;
  std::map<Rank, std::set<int>> signals_;  // that were sent to the task since its start
};

}  // namespace nacre::core
