// SPDX-License-Identifier: Apache-2.0
//
// This shell where it joins a job that runs, until it is ready: what the job had come to when it was announced,
// which it has to know before its plugins do anything. What fails until then does not end the job.
#pragma once

#include <string>

#include "base/json.hpp"
#include "core/shell_group.hpp"
#include "core/shell_restart.hpp"
#include "elastic/growth.hpp"
#include "job/job.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class JoiningShell {
 public:
  // All have to outlive it. `job`: that of `host`.
  JoiningShell(plugin::Host& host, job::Job& job, ShellGroup& shells, ShellRestart& restart)
      : host_(host), job_(job), shells_(shells), restart_(restart) {}

  // It joins. `before`: the shells that have joined so far, this one too; `state`: see ShellGrow.
  void begin(const elastic::Growth& before, Json state);
  [[nodiscard]] bool is_joining() const { return is_joining_; }

  // Of a shell that does not join these do nothing.
  Result<void> take_state();     // once the taskmap is final
  Result<void> take_restarts();  // once the options are
  // Its initrc files have to be those of the leader.
  [[nodiscard]] Result<void> check_initrcs(const std::string& mark) const;
  void ready();
  void failed(const std::string& why);

 private:
  plugin::Host& host_;
  job::Job& job_;
  ShellGroup& shells_;
  ShellRestart& restart_;
  bool is_joining_ = false;
  bool has_failed_ = false;
  value::Idset missing_;  // shells that were to join before it, and have not come
  Json state_;
  std::string initrcs_;  // the leader's
};

}  // namespace nacre::core
