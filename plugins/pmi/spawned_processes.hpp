// SPDX-License-Identifier: Apache-2.0
//
// Processes that are no tasks, as a task has asked for them: they have the job's environment, a task's limits, and
// its places of output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plugin/host.hpp"
#include "plugins/pmi/spawned_part.hpp"
#include "pmi/spawn.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {

class SpawnedProcesses {
 public:
  using Index = std::uint32_t;  // counted from 0, in the order of their start
  struct Callbacks {
    std::function<void(Index)> on_exit;
    std::function<void()> on_none_runs;  // may destroy this object
  };

  // `task`: the rank as whose output theirs comes out; `setup`: of a task, for a shell that has none.
  SpawnedProcesses(plugin::Host& host, std::uint32_t task, task::ChildSetup setup, Callbacks callbacks)
      : host_(host), task_(task), setup_(std::move(setup)), callbacks_(std::move(callbacks)) {}

  // `complete` is given its command before it is started.
  Result<void> start(const pmi::SpawnProgram& program, const std::function<void(task::Command&)>& complete);

  [[nodiscard]] Index running() const { return running_; }
  [[nodiscard]] Index size() const { return static_cast<Index>(processes_.size()); }
  [[nodiscard]] bool runs(Index index) const { return index < size() && !processes_[index]->exited(); }
  [[nodiscard]] std::vector<SpawnedProcess> that_run(const std::vector<std::uint32_t>& ranks) const;  // by index
  [[nodiscard]] const value::WaitStatus& status(Index index) const { return processes_[index]->status(); }
  [[nodiscard]] pid_t pid(Index index) const { return processes_[index]->pid(); }
  Result<void> kill(Index index, int signum);  // nothing, if it does not run

 private:
  Result<std::pair<UniqueFd, UniqueFd>> open_output();

  plugin::Host& host_;
  std::uint32_t task_;
  task::ChildSetup setup_;
  Callbacks callbacks_;
  std::vector<std::unique_ptr<task::Subprocess>> processes_;
  Index running_ = 0;
};

}  // namespace nacre::plugins
