// SPDX-License-Identifier: Apache-2.0
//
// The options of a verb that starts a job which say where its shells are, and how they are started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "front/launch_run.hpp"
#include "group/membership.hpp"

namespace CLI {
class App;
}

namespace nacre::front {

// Where shells may be.
struct Places {
  std::vector<std::string> hosts;          // a word for each; of srun: empty
  bool is_local = false;                   // --local: all on this host, without an agent
  bool by_srun = false;                    // Slurm's srun starts them
  std::optional<std::uint32_t> srun_most;  // that there are nodes for; none: outside of an allocation
  bool is_counted = false;                 // their number was asked for, by --local

  [[nodiscard]] std::optional<std::uint32_t> most() const {
    return by_srun ? srun_most : std::optional(static_cast<std::uint32_t>(hosts.size()));
  }
};

class PlaceOptions {
 public:
  // `elsewhere`: where they are if nothing is said, for the help.
  void add_to(CLI::App& verb, const char* elsewhere);
  // Of the options, else of the allocation that this process is in, whose shells Slurm's srun starts with `prefers_srun` if it is
  // there; none: nothing has been said.
  Result<std::optional<Places>> find(bool prefers_srun) const;
  // Puts `count` shells at the first of the places, and how they are started, into the plan.
  Result<void> put(Places places, std::uint32_t count, LaunchPlan& plan) const;

  // A word that is no option of the verb.
  void add_shell_option(std::string word) { shell_options_.push_back(std::move(word)); }

 private:
  std::string hosts_;
  std::string hostfile_;
  std::uint32_t local_ = 0;
  bool srun_ = false;
  std::string agent_;
  std::vector<std::string> agent_arguments_;
  std::vector<std::string> srun_arguments_;
  std::string shell_;
  std::string initrc_, eventlog_, record_directory_;  // paths
  std::vector<std::string> shell_options_;
  std::uint32_t arity_ = group::Membership::kDefaultArity;
  double timeout_ = 30;
  bool verbose_ = false;
};

// An option that may be repeated, with a value each time.
void add_list(CLI::App& verb, const char* name, std::vector<std::string>& into, const char* text,
              const char* value);

}  // namespace nacre::front
