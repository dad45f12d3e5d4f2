// SPDX-License-Identifier: Apache-2.0
//
// The manager of an allocation, as what takes nodes back: which it is, and the command by which it does. What the
// commands do is decided here; who runs them is another matter.
#pragma once

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "value/hostlist.hpp"
#include "value/jobid.hpp"

namespace nacre::job {

struct BatchSystem {
  enum class Kind : std::uint8_t { none, slurm, pbs, lsf, other, command };
  // Of the environment of shells that nacre has started by srun with --no-kill.
  static constexpr const char* kStepSurvives = "NACRE_SRUN_NO_KILL";
  using Variable = std::function<std::optional<std::string>(const char* name)>;

  Kind kind = Kind::none;
  std::string name;               // for messages: Slurm, PBS, ...; of a command, the command
  std::string job;                // its id there
  bool ends_with_a_node = false;  // Slurm: the shells are a step that is ended if it loses a node

  // By the environment of the leader.
  static BatchSystem of_environment(const Variable& variable);
  // A command of /bin/sh.
  static BatchSystem of_command(std::string text);

  // Why nothing can be given back, whatever the hosts are: one line. None: it can.
  [[nodiscard]] std::optional<std::string> obstacle() const;
  // What gives these hosts back; there is no obstacle. Its name is for messages.
  struct Command {
    std::vector<std::string> argv;
    std::string name;
  };
  [[nodiscard]] Command release(const value::Hostlist& hosts) const;
};

// The variables by which programs of a job find the instance of Flux that it is a job of, as that has told this
// shell. Empty: it is a job of none.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> flux_variables(
    const value::JobId& job, const BatchSystem::Variable& variable);

// What has become of hosts that were to be given back to the manager `name`, as plugin::NodeRelease has it.
[[nodiscard]] Json release_outcome(std::string_view name, const value::Hostlist& hosts,
                                   const Result<std::string>& released);

}  // namespace nacre::job
