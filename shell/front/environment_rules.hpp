// SPDX-License-Identifier: Apache-2.0
//
// The environment that a job gets: the caller's, without the variables that an outer launcher has set for its own
// tasks, and changed by rules. The rules are applied in order, and are those of `flux run --env`:
//
//   -PATTERN   remove the variables whose names match
//   PATTERN    take those of the caller again (a name, or a pattern)
//   NAME=TEXT  set one; $VAR and ${VAR} in TEXT are variables of the job so far, else of the caller, and $$ is a
//              dollar sign
//   ^FILE      the rules in FILE, one a line; empty lines and those that start with # are ignored
//
// A PATTERN is a glob(7) pattern, or /REGEX/, an extended regular expression (regex(7)) that the whole name has to
// match.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre::front {

using Variables = std::map<std::string, std::string, std::less<>>;

// The variables of a block like environ(7). Entries that are not NAME=value are left out.
[[nodiscard]] Variables variables_of(const char* const* block);

// Removes the variables that launchers set for the processes that they start; they would mislead the processes of
// another job: PMI_*, PMIX_*, those of a Slurm step, those of Flux and nacre about a task and its job, and those of
// Hydra, Open MPI, PRRTE and PALS.
[[nodiscard]] bool is_of_outer_launcher(std::string_view name);
void drop_outer_launcher(Variables& variables);

// A jobspec is JSON, and all text in JSON is UTF-8: removes the variables that are not UTF-8, and returns their
// names.
std::vector<std::string> drop_no_utf8(Variables& variables);
[[nodiscard]] bool is_utf8(std::string_view text);

class EnvironmentRules {
 public:
  static constexpr std::size_t kMaxFile = std::size_t{8} << 20;  // bytes of a file of rules

  // `caller`: the environment that PATTERN and $VAR are looked up in.
  explicit EnvironmentRules(Variables caller) : caller_(std::move(caller)), job_(caller_) {
    drop_outer_launcher(job_);
  }
  // The same, but the job's environment is `job` before the rules.
  EnvironmentRules(Variables caller, Variables job) : caller_(std::move(caller)), job_(std::move(job)) {}

  // Errors name the rule; errors in a file of rules name the file and the line.
  Result<void> apply(std::string_view rule);
  Result<void> apply_file(const std::string& path);
  // The text of a file of rules, which cannot name another file.
  Result<void> apply_text(std::string_view text, std::string_view name);

  [[nodiscard]] const Variables& job() const { return job_; }

 private:
  Result<void> apply_one(std::string_view rule, bool in_file);
  Result<void> remove(std::string_view pattern);
  Result<void> take(std::string_view pattern);
  [[nodiscard]] Result<std::string> expand(std::string_view text) const;
  [[nodiscard]] const std::string* find(std::string_view name) const;

  Variables caller_;
  Variables job_;
};

}  // namespace nacre::front
