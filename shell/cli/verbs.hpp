// SPDX-License-Identifier: Apache-2.0
//
// The program `nacre`: `nacre VERB ...`. A verb has a file of its own, a line here or in front/verbs.hpp, and a
// line in nacre.cpp.
#pragma once

#include <memory>
#include <vector>

#include "base/result.hpp"

namespace CLI {
class App;
}

namespace nacre::cli {

class Verb {
 public:
  Verb() = default;
  virtual ~Verb() = default;
  Verb(const Verb&) = delete;
  Verb& operator=(const Verb&) = delete;

  // Adds the verb as a subcommand, with options that are stored in this object. It is called for every verb at each
  // start, so it must not load or look up anything.
  virtual void add_to(CLI::App& nacre) = 0;
  // Whether the command line has this verb.
  [[nodiscard]] virtual bool chosen() const = 0;
  // Runs the verb; returns the program's exit code. An error is printed as `nacre VERB: message`, and the exit code
  // is 1 then.
  virtual Result<int> run() = 0;
};

using VerbPtr = std::unique_ptr<Verb>;

// A verb with CLI::App::prefix_command() finds this in the place of each `--`, which CLI11 would remove.
inline constexpr const char* kEndOfOptions = "\x1f--";

VerbPtr make_archive();
VerbPtr make_initrc();
VerbPtr make_plugin();

// The whole program: reads the command line, runs the verb, prints errors and help; returns the exit code.
int run_nacre(int argc, char** argv, const std::vector<VerbPtr>& verbs);

}  // namespace nacre::cli
