// SPDX-License-Identifier: Apache-2.0
//
// The program `nacre`: `nacre VERB ...`. A verb has a file of its own, a line here or in front/verbs.hpp, and its
// name in nacre.cpp.
#pragma once

#include "base/result.hpp"

namespace nacre::cli {

class CommandLine;

class Verb : Noncopyable {
 public:
  Verb() = default;
  virtual ~Verb() = default;

  // Adds its options to its command line, which lives as long as this object does; they are stored in this object.
  // It must not load or look up anything: for the help of `nacre` it is called for every verb.
  virtual void add_to(CommandLine& verb) = 0;
  // Looks at the options together when they have been read. An error is one of usage: the exit code is 2.
  virtual Result<void> check_usage() { return {}; }
  // Runs the verb; returns the program's exit code. An error is printed as `nacre VERB: message`, and the exit code
  // is 1 then.
  virtual Result<int> run() = 0;
};

using VerbPtr = std::unique_ptr<Verb>;

// What a command line that runs nothing prints: help, the version, or a usage error.
struct Reply {
  int exit_code = 0;  // 0: the text is for stdout; 2, a usage error: for stderr
  std::string text;
};

// For a verb that has the arguments of another program: makes words of this verb of those behind its name.
// `program`: as in messages.
using Translate = std::variant<Reply, std::vector<std::string>> (*)(const std::string& program,
                                                                    const std::vector<std::string>& words);

struct NamedVerb {
  const char* name;
  const char* text;  // what it does, for the help
  VerbPtr (*make)();
  Translate translate = nullptr;
  const char* other_name = "";
};

VerbPtr make_archive();
VerbPtr make_initrc();
VerbPtr make_plugin();
VerbPtr make_version();

// The whole program: reads the command line, runs the verb, prints errors and help; returns the exit code. Of the
// verbs it makes the one that the first word names, so that no other costs time; all of them if none is named.
// Where the program has the name of a verb, as a link to it may have, it is that verb.
int run_nacre(int argc, char** argv, std::span<const NamedVerb> verbs);

// `PROGRAM: message`, and a hint at --help. `program` includes the verbs: "nacre archive create".
[[nodiscard]] Reply usage_error(const std::string& program, const std::string& message);

// Prints the reply to stdout or stderr; returns its exit code.
int print(const Reply& reply);

}  // namespace nacre::cli
