// SPDX-License-Identifier: Apache-2.0
//
// The program `nacre`: `nacre VERB ...`. A verb has a file of its own, a line here or in front/verbs.hpp, and its
// name in nacre.cpp.
#pragma once

#include <memory>
#include <span>

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

  // Adds its options to the subcommand, which lives as long as this object does; they are stored in this object. It
  // must not load or look up anything: for the help of `nacre` it is called for every verb.
  virtual void add_to(CLI::App& verb) = 0;
  // Runs the verb; returns the program's exit code. An error is printed as `nacre VERB: message`, and the exit code
  // is 1 then.
  virtual Result<int> run() = 0;
};

using VerbPtr = std::unique_ptr<Verb>;

struct NamedVerb {
  const char* name;
  const char* text;  // what it does, for the help
  VerbPtr (*make)();
};

// A verb with CLI::App::prefix_command() finds this in the place of each `--`, which CLI11 would remove.
inline constexpr const char* kEndOfOptions = "\x1f--";

VerbPtr make_archive();
VerbPtr make_initrc();
VerbPtr make_plugin();

// The whole program: reads the command line, runs the verb, prints errors and help; returns the exit code. Of the
// verbs it makes the one that the first word names, so that no other costs time; all of them if none is named.
int run_nacre(int argc, char** argv, std::span<const NamedVerb> verbs);

}  // namespace nacre::cli
