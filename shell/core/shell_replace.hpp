// SPDX-License-Identifier: Apache-2.0
//
// on-lost=replace, as one shell has it. When a shell with tasks is lost the leader chooses a spare, or other shells
// (restart=...,where=any), and announces that the tasks are there now (kTopic): so all shells know it in one order
// with losses. It does not stand for a shell that was lost, or asked to leave, before it: then the leader chooses
// again. elastic/recovery.hpp decides.
//
// PMI knows no second start of a rank. So where tasks use it, and where restart has scope=job, all tasks of the job
// start again with those that move, if restart allows it (ShellRestart); the same announcement has both. The leader
// asks the shells that stay which of their tasks are connected to PMI.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "core/shell_group.hpp"
#include "core/shell_restart.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "elastic/recovery.hpp"
#include "group/group.hpp"
#include "job/job.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

class ShellReplace {
 public:
  // All have to outlive it. `job`: that of `host`.
  ShellReplace(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellShrink& shrink, ShellTasks& tasks,
               ShellRestart& restart)
      : host_(host), job_(job), shells_(shells), shrink_(shrink), tasks_(tasks), restart_(restart) {}

  // Once the options are final. An error: on-lost is wrong.
  Result<void> serve();

  // Tasks of another shell are to be started here.
  [[nodiscard]] bool is_due() const { return !due_.empty() && !shrink_.leaves(); }
  // Makes those that have been announced first, and calls shell.take-over. They still have to be started.
  Result<void> take_over();

 private:
  using Rank = value::Idset::Id;
  static constexpr std::string_view kTopic = "shell.replace";

  bool lost(group::Rank shell);
  void decide(group::Rank shell, const value::Idset& connected);
  void give_up(group::Rank shell, const std::string& why);
  Result<void> replace(group::Rank shell, const value::Idset& ranks, bool takes_all);
  Result<std::vector<std::uint32_t>> choose(group::Rank shell, const value::Idset& ranks);
  [[nodiscard]] std::vector<elastic::Replacements::Other> others() const;
  [[nodiscard]] std::vector<elastic::Replacements::Spare> spares() const;
  void announced(std::string_view bytes);
  void moved_alone(const elastic::Replacement& what);
  void moved_with_all(const elastic::Replacement& what);
  void note_due(const std::vector<job::Move>& moves);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellShrink& shrink_;
  ShellTasks& tasks_;
  ShellRestart& restart_;
  elastic::Replacements replacements_;  // the leader's
  std::deque<job::Move> due_;           // to this shell
  bool takes_any_ = false;              // where=any
  plugin::Registration announced_;
};

}  // namespace nacre::core
