// SPDX-License-Identifier: Apache-2.0
//
// on-lost=replace, as one shell has it. When a shell with tasks is lost the leader chooses a spare, and announces
// that the tasks are there now (kTopic): so all shells know it in one order with losses. It does not stand if the
// spare was lost, or asked to leave, before it: then the leader chooses again. elastic/replacements.hpp decides.
//
// Tasks that are connected to PMI cannot start again alone, as PMI cannot tell the others of it. So the leader asks
// the shells that stay whether they have such tasks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "core/shell_group.hpp"
#include "core/shell_shrink.hpp"
#include "core/shell_tasks.hpp"
#include "elastic/replacements.hpp"
#include "group/group.hpp"
#include "job/job.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

class ShellReplace {
 public:
  // All have to outlive it. `job`: that of `host`.
  ShellReplace(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellShrink& shrink, ShellTasks& tasks)
      : host_(host), job_(job), shells_(shells), shrink_(shrink), tasks_(tasks) {}

  // Once the options are final. An error: on-lost is wrong.
  Result<void> serve();

  // Of a spare: tasks of a lost shell are to be started here.
  [[nodiscard]] bool is_due() const { return due_.has_value(); }
  // Makes these tasks, and calls shell.take-over. They still have to be started.
  Result<void> take_over();

 private:
  static constexpr std::string_view kTopic = "shell.replace";

  bool lost(group::Rank shell);
  void decide(group::Rank shell, const value::Idset& connected);
  Result<void> replace(group::Rank shell, const value::Idset& ranks);
  [[nodiscard]] std::vector<elastic::Replacements::Spare> spares() const;
  [[nodiscard]] elastic::Replacements::Room needed(group::Rank shell, const value::Idset& ranks) const;
  void announced(std::string_view bytes);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellShrink& shrink_;
  ShellTasks& tasks_;
  elastic::Replacements replacements_;  // the leader's
  std::optional<job::Move> due_;        // to this shell
  plugin::Registration announced_;
};

}  // namespace nacre::core
