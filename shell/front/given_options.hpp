// SPDX-License-Identifier: Apache-2.0
//
// Options of a verb that stand for options of the shell, which -o sets as well: if both are given they have to say
// the same.
#pragma once

#include <nlohmann/json.hpp>

#include "front/launch_run.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::job {
class Options;
}

namespace nacre::front {

struct GivenOption {
  std::string word;  // as it was given: "--report=end.json"
  std::string name;  // of the shell's option, a dotted path: "report"
  Json value;        // null: nothing that -o could set
};

// "A and B contradict each other: give one of them".
[[nodiscard]] std::string contradiction(std::string_view one, std::string_view other);

// `setopt`: the arguments of -o. An error: one of them is no such argument, or two of all these set the same option
// to different values.
Result<void> refuse_contradictions(const std::vector<GivenOption>& given, const std::vector<std::string>& setopt);

// For --explain: that the options of both, by their paths, are of the command line.
[[nodiscard]] std::map<std::string, std::string> sources_of(const std::vector<GivenOption>& given,
                                                            const std::vector<std::string>& setopt);

struct WordRow;  // of the one table of such options, in given_options.cpp

// The options of `nacre run` or of `nacre launch`.
class GivenOptions {
 public:
  enum class Verb : std::uint8_t { run = 1, launch = 2 };

  explicit GivenOptions(Verb verb) : verb_(verb) {}

  // Adds those of this group of --help, which has begun; "": those without a group.
  void add_to(cli::CommandLine& verb, std::string_view group);

  // The value of "--pretend"; "": it is not given, or has none.
  [[nodiscard]] std::string text(std::string_view word) const;
  [[nodiscard]] bool has(std::string_view word) const { return find(word) != nullptr; }

  [[nodiscard]] std::vector<GivenOption> given() const;
  // Sets the shell's options that they stand for.
  void set(job::Options& out) const;
  // The same, in the form that -o takes.
  [[nodiscard]] std::vector<std::string> shell_options() const;
  // What the leader sends to files of this host. An error: one of them cannot be written.
  [[nodiscard]] Result<std::vector<LaunchReport>> reports() const;

  // Defaults, which the jobspec or -o may replace: "exit-timeout.after=failure", unless `options` has
  // exit-timeout.after; with torch "exit-on-error=1", unless `options` has that or restart.
  [[nodiscard]] static std::vector<std::string> defaults(const job::Options& options);

 private:
  struct Taken {
    const WordRow* row;
    std::string text;  // "": without a value
  };

  [[nodiscard]] const Taken* find(std::string_view word) const;  // null: it is not given

  Verb verb_;
  std::vector<Taken> taken_;  // in the order in which they were given
};

// Whether a job may be rehearsed. `given`: the verb's options. An error: this process is within an allocation of a
// manager, or srun starts the shells (`by_srun`), and the rehearsal is not forced.
[[nodiscard]] Result<void> allow_rehearsal(const GivenOptions& given, bool by_srun);

// The options of a verb that runs a job: how the job is shown. -q leaves out what is neither a warning nor an
// error; --explain prints the plan instead.
class ShowOptions {
 public:
  // Call it after the options with --verbose, which --quiet excludes. `explained`: what --explain alone shows,
  // brief or all.
  void add_to(cli::CommandLine& verb, const char* explained);

  [[nodiscard]] bool is_quiet() const { return quiet_; }
  [[nodiscard]] bool explains() const { return !explain_.empty(); }
  // Words that nacre-shell takes.
  [[nodiscard]] std::vector<std::string> shell_words() const;

 private:
  bool quiet_ = false;
  std::string explain_;  // brief, env, all; empty: the job runs
};

}  // namespace nacre::front
