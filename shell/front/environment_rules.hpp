// SPDX-License-Identifier: Apache-2.0
//
// The environment that a job gets: the caller's, without what an outer launcher has left for its own tasks, changed by rules that are
// applied in order, as `flux run --env` has them:
//
//   -PATTERN   remove the variables whose names match
//   PATTERN    take those of the caller again (a name, or a pattern)
//   NAME=TEXT  set one; $VAR and ${VAR} in TEXT are variables of the job so far, else of the caller, and $$ is a dollar sign
//   ^FILE      the rules in FILE, one a line; empty lines and those that start with # are passed over
//
// A PATTERN is a glob(7) pattern, or /REGEX/, an extended regular expression (regex(7)) that the whole name has to match.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nacre::front {

using Variables = std::map<std::string, std::string, std::less<>>;

// Of a block as environ(7) has it. What is no NAME=value is left out.
[[nodiscard]] Variables variables_of(const char* const* block);

// What launchers set for the processes that they start, which would mislead those of another job: PMI_*, PMIX_*, the variables of
// a step of Slurm, Flux's and nacre's of a task and its job, those of Hydra, Open MPI, PRRTE and PALS.
[[nodiscard]] bool is_of_outer_launcher(std::string_view name);
void drop_outer_launcher(Variables& variables);

// JSON, which a jobspec is, has no other text than UTF-8: removes the variables that are no UTF-8; their names.
std::vector<std::string> drop_no_utf8(Variables& variables);
[[nodiscard]] bool is_utf8(std::string_view text);

class EnvironmentRules {
 public:
  static constexpr std::size_t kMaxFile = std::size_t{8} << 20;  // bytes of a file of rules

  // `caller`: what PATTERN and $VAR take from.
  explicit EnvironmentRules(Variables caller) : caller_(std::move(caller)), job_(caller_) {
    drop_outer_launcher(job_);
  }

  // Errors name the rule; those of a file, the file and the line.
  Result<void> apply(std::string_view rule);
  Result<void> apply_file(const std::string& path);
  // The text of such a file, which may name no other.
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
