// SPDX-License-Identifier: Apache-2.0
//
// Options of a verb that stand for options of the shell, which -o sets too: what is given both ways has to be the
// same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "front/launch_run.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::job {
class Options;
}

namespace nacre::cli {
class CommandLine;
}

namespace nacre::front {

// What an option is set to that may have a value, and has none.
inline constexpr const char* kWithoutValue = "true";

struct GivenOption {
  std::string word;  // as it was given: "--report=end.json"
  std::string name;  // of the shell's option, a dotted path: "report"
  Json value;        // null: none that -o could set
};

// "A and B contradict each other: give one of them".
[[nodiscard]] std::string contradiction(std::string_view one, std::string_view other);

// `setopt`: the arguments of -o. An error: one of them is none, or sets one of `given` to
// another value.
Result<void> refuse_contradictions(const std::vector<GivenOption>& given, const std::vector<std::string>& setopt);

// For --explain: that the options of both, by their paths, are of the command line.
[[nodiscard]] std::map<std::string, std::string> sources_of(const std::vector<GivenOption>& given,
                                                            const std::vector<std::string>& setopt);

// The options of a verb that runs a job: those that choose the job's exit code, and what ends the job. Each stands
// for an option of the shell (nacre-exits(7)).
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

// The options of `nacre run` for a rehearsal: what is done to the job, see job/rehearsal.hpp.
class RehearseOptions {
 public:
  void add_to(cli::CommandLine& verb);

  [[nodiscard]] std::vector<GivenOption> given() const;
  // Options in the form that -o takes.
  [[nodiscard]] std::vector<std::string> shell_options() const;
  // An error: this process is within an allocation of a manager, or `by_srun` starts the shells, and that is not
  // forced.
  [[nodiscard]] Result<void> allow(bool by_srun) const;

 private:
  std::string events_;  // "": none
  bool force_ = false;
};

// The options of a verb that runs a job: how the job is shown. --format=json is the shell's `output.events`; -q
// leaves out what is neither a warning nor an error; --explain prints the plan instead.
class ShowOptions {
 public:
  // After the options that have --verbose, which --quiet excludes. `explained`: what --explain alone shows, brief
  // or all.
  void add_to(cli::CommandLine& verb, const char* explained);

  [[nodiscard]] bool is_json() const { return format_ == "json"; }
  [[nodiscard]] bool is_quiet() const { return quiet_; }
  [[nodiscard]] bool explains() const { return !explain_.empty(); }
  [[nodiscard]] std::vector<GivenOption> given() const;
  // Options in the form that -o takes.
  [[nodiscard]] std::vector<std::string> shell_options() const;
  // Words that nacre-shell takes.
  [[nodiscard]] std::vector<std::string> shell_words() const;

 private:
  std::string format_;  // empty: not given, which is text
  bool quiet_ = false;
  std::string explain_;  // brief, env, all; empty: the job runs
};

// The option --timeline of a verb that runs a job, the shell's `timeline`; its file is of this host.
class TimelineOption {
 public:
  void add_to(cli::CommandLine& verb);

  [[nodiscard]] std::vector<GivenOption> given() const;
  // Options in the form that -o takes.
  [[nodiscard]] std::vector<std::string> shell_options() const;
  // The file. An error: it cannot be written.
  [[nodiscard]] Result<std::vector<LaunchReport>> reports() const;

 private:
  [[nodiscard]] bool prints() const;

  std::string file_;  // "": not given; "true": without a value
};

// The options of a verb that runs a job: what is kept of what its tasks use. --usage is the shell's `usage`,
// --joblog its `joblog`, --usage-plot its `usage-plot`, --usage-gpu its `usage-gpu`; files are of this host.
class UsageOptions {
 public:
  void add_to(cli::CommandLine& verb);

  [[nodiscard]] std::vector<GivenOption> given() const;
  // Options in the form that -o takes.
  [[nodiscard]] std::vector<std::string> shell_options() const;
  // The files.
  [[nodiscard]] std::vector<LaunchReport> reports() const;

 private:
  [[nodiscard]] bool prints() const;

  std::string usage_;  // "": not given; "true": without a value
  std::string joblog_;
  std::string plot_;
  bool gpus_ = false;
};

}  // namespace nacre::front
