// SPDX-License-Identifier: Apache-2.0
//
// The manager of an allocation, which takes nodes back: which manager it is, and the command for that. Only the
// commands are decided here; others run them.
#pragma once

#include "base/json_fwd.hpp"
#include "value/hostlist.hpp"
#include "value/jobid.hpp"

namespace nacre::job {

struct BatchSystem {
  enum class Kind : std::uint8_t { none, slurm, pbs, lsf, other, command };
  // In the environment of shells that nacre has started by srun with --no-kill.
  static constexpr const char* kStepSurvives = "NACRE_SRUN_NO_KILL";
  using Variable = std::function<std::optional<std::string>(const char* name)>;

  Kind kind = Kind::none;
  std::string name;               // for messages: Slurm, PBS, ...; for a command, the command
  std::string job;                // its id there
  bool ends_with_a_node = false;  // Slurm: the shells are a step, which is ended if it loses a node

  // Finds it by the environment of the leader.
  static BatchSystem of_environment(const Variable& variable);
  // A command of /bin/sh.
  static BatchSystem of_command(std::string text);

  // Why no hosts can be given back: one line. None: they can.
  [[nodiscard]] std::optional<std::string> obstacle() const;
  // The command that gives these hosts back; call it only if there is no obstacle. Its name is for messages.
  struct Command {
    std::vector<std::string> argv;
    std::string name;
  };
  [[nodiscard]] Command release(const value::Hostlist& hosts) const;
};

// The variables by which programs of a job find the Flux instance that the job belongs to, as the instance has told
// this shell. Empty: it belongs to none.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> flux_variables(
    const value::JobId& job, const BatchSystem::Variable& variable);

// What has become of hosts that were to be given back to the manager `name`, in the form of plugin::NodeRelease.
[[nodiscard]] Json release_outcome(std::string_view name, const value::Hostlist& hosts,
                                   const Result<std::string>& released);

}  // namespace nacre::job
