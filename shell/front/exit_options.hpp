// SPDX-License-Identifier: Apache-2.0
//
// The options of a verb that runs a job: those that choose the job's exit code, and what ends the job. Each stands
// for an option of the shell (nacre-exits(7)).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::job {
class Options;
}

namespace nacre::front {

class ExitOptions {
 public:
  void add_to(cli::CommandLine& verb);
  // `setopt`: the values of -o. An error: a value is wrong, or two options, of which -o may be one, set the same to
  // different values.
  Result<void> check(const std::vector<std::string>& setopt);

  [[nodiscard]] const std::string& report() const { return report_; }  // a path; empty: none
  // Options in the form that -o takes: "exit-policy=all".
  [[nodiscard]] std::vector<std::string> shell_options() const;

  // Defaults, which the jobspec or -o may replace: "exit-timeout.after=failure", unless `options` has
  // exit-timeout.after.
  [[nodiscard]] static std::vector<std::string> defaults(const job::Options& options);

 private:
  // Sets the policy by the option that chooses it.
  Result<void> choose_policy();
  [[nodiscard]] Result<void> check_values() const;
  // Of each shell option of this verb's, what was given: "--any-failure", "--exit-ok=77".
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> given() const;

  std::string policy_;
  std::string policy_word_;  // by which it was chosen
  std::optional<std::uint32_t> main_;
  std::string ok_;
  std::string report_;  // a path
  std::string fail_fast_;
  std::string restart_;
  std::string hang_watch_;
  bool all_ = false, all_nodes_ = false, any_ = false;
};

}  // namespace nacre::front
