// SPDX-License-Identifier: Apache-2.0
//
// The options of a verb that runs a job: how the job is shown. --format=json is the shell's `output.events`; -q
// leaves out what is neither a warning nor an error; --explain prints the plan instead.
#pragma once

#include <string>
#include <vector>

#include "front/given_options.hpp"

namespace nacre::cli {
class CommandLine;
}

namespace nacre::front {

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

}  // namespace nacre::front
