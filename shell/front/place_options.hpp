// SPDX-License-Identifier: Apache-2.0
//
// The options of a verb that starts a job: those for where its shells are, and how they are started.
#pragma once

#include "boot/pod.hpp"
#include "front/launch_run.hpp"
#include "group/directory.hpp"
#include "job/machine_shape.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::front {

// Where shells may be.
struct Places {
  std::vector<std::string> hosts;                   // one name for each shell; empty with srun
  bool is_local = false;                            // --local: all on this host, without an agent
  bool by_srun = false;                             // Slurm's srun starts them
  std::optional<std::uint32_t> srun_most;           // how many nodes srun has; none: not known
  bool is_counted = false;                          // --local has given their number
  bool is_named = false;                            // hosts that the user names, or of an allocation
  std::optional<job::MachineShape> pretended = {};  // --pretend: the nodes are made up
  // How many tasks, if nobody says so, by `tasks_source`; none: one on each of several hosts.
  std::optional<std::uint32_t> tasks = {};
  std::string tasks_source = {};
  bool is_of_flux = false;                // the allocation is an instance of Flux, whose brokers start shells
  std::vector<std::uint32_t> slots = {};  // of each host; 0: unknown. Empty: they are not of hosts
  std::optional<boot::Pod> pod = {};      // this is one of several pods, which all begin a shell each

  [[nodiscard]] std::optional<std::uint32_t> most() const {
    if (pod) return pod->size;
    return by_srun ? srun_most : std::optional(static_cast<std::uint32_t>(hosts.size()));
  }
};

class PlaceOptions {
 public:
  // `elsewhere`: for the help: where the shells are without these options.
  void add_to(cli::CommandLine& verb, const char* elsewhere);
  void add_pretend(cli::CommandLine& verb);
  // An error: two options exclude each other.
  [[nodiscard]] Result<void> check() const;
  // The places that the options name, or else those of the allocation that this process is in. With `prefers_srun`
  // Slurm's srun starts the shells of a Slurm allocation, if it is on the PATH and no agent is named. Without an
  // allocation they are the pods to which this one belongs, if the verb `joins_pods`. None: no such place is there.
  Result<std::optional<Places>> find(bool prefers_srun, bool joins_pods = false) const;
  // Puts the first `count` of the places, and how shells are started there, into the plan.
  Result<void> put(Places places, std::uint32_t count, LaunchPlan& plan) const;

  [[nodiscard]] const std::string& pretend() const { return pretend_; }  // empty: not given
  [[nodiscard]] const std::string& initrc() const { return initrc_; }    // a path; empty: none

  // Adds a word that is not an option of the verb, but of nacre-shell.
  void add_shell_option(std::string word) { shell_options_.push_back(std::move(word)); }

 private:
  [[nodiscard]] std::vector<std::string> agent(bool is_of_flux) const;

  std::string hosts_;
  std::string hostfile_;
  std::uint32_t local_ = 0;
  bool srun_ = false;
  std::string pretend_;
  std::string agent_;
  std::vector<std::string> agent_arguments_;
  std::vector<std::string> srun_arguments_;
  std::string shell_;
  std::string initrc_, eventlog_, record_directory_;  // paths
  std::vector<std::string> shell_options_;
  std::uint32_t arity_ = group::Membership::kDefaultArity;
  std::optional<double> timeout_;
  bool verbose_ = false;
};

}  // namespace nacre::front
