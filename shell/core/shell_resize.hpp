// SPDX-License-Identifier: Apache-2.0
//
// The option resize, as one shell has it: the job starts again with fewer tasks where a shell with tasks is lost
// and no spare takes these, and with more once others have joined. The leader decides on which shells, and
// announces that (elastic::JobResize): so all shells have the same tasks from one place in the log on. ShellRestart
// ends and starts them; which ranks are where is job::Job's.
#pragma once

#include "core/shell_group.hpp"
#include "core/shell_restart.hpp"
#include "elastic/recovery.hpp"
#include "job/job.hpp"
#include "plugin/host.hpp"
#include "plugin/registration.hpp"

namespace nacre::core {

class ShellResize {
 public:
  // All shells: what was announced, and what has become of it; none: something else has come before it.
  using WhenDecided =
      std::function<void(const elastic::JobResize& what, const std::optional<elastic::RestartDecision>& decision)>;

  // All have to outlive it. `job`: that of `host`.
  ShellResize(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellRestart& restart)
      : host_(host), job_(job), shells_(shells), restart_(restart) {}

  // Once the options are final. An error: resize is wrong, or does not go with another option.
  Result<void> serve();
  void when_decided(WhenDecided receive) { on_decided_ = std::move(receive); }

  [[nodiscard]] bool is_on() const { return job_.tasks_each > 0; }
  // Leader: the job goes on without this shell, which is lost. ENOSPC: it would have too few nodes.
  Result<void> go_on_without(group::Rank shell);
  // Leader: the job gets more tasks, if there is room for them and nothing else is under way.
  void look_for_more();

 private:
  [[nodiscard]] Result<void> check_options() const;
  [[nodiscard]] value::Idset able() const;
  Result<void> send(const elastic::JobResize& what);
  void announced(std::string_view bytes);

  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellRestart& restart_;
  WhenDecided on_decided_;
  std::string said_;  // why there are not more tasks
  plugin::Registration announced_;
};

}  // namespace nacre::core
