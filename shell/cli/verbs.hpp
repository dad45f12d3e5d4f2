// SPDX-License-Identifier: Apache-2.0
//
// The program `nacre`: `nacre VERB ...`. A verb is a file of its own, a line here or in front/verbs.hpp, and a line in
// nacre.cpp.
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

  // Adds the verb as a subcommand, with its options, which are stored in this. Called for every verb at each start,
  // so it loads and looks up nothing.
  virtual void add_to(CLI::App& nacre) = 0;
  // Whether the command line was one of this verb.
  [[nodiscard]] virtual bool chosen() const = 0;
  // Does it; the program's exit code. An error is printed as `nacre VERB: message`, and the exit code is 1.
  virtual Result<int> run() = 0;
};

using VerbPtr = std::unique_ptr<Verb>;

// What a verb with CLI::App::prefix_command() finds in the place of each `--`, of which CLI11 would leave nothing to a subcommand.
inline constexpr const char* kEndOfOptions = "\x1f--";

VerbPtr make_archive();
VerbPtr make_initrc();
VerbPtr make_plugin();

// The whole program: reads the command line, runs the verb of `verbs`, prints what there is to print; the exit code.
int run_nacre(int argc, char** argv, const std::vector<VerbPtr>& verbs);

}  // namespace nacre::cli
