// SPDX-License-Identifier: Apache-2.0
//
// The command line of nacre-shell; see nacre-shell(1).
#pragma once

#include "boot/boot.hpp"
#include "boot/identity.hpp"
#include "cli/verbs.hpp"

namespace nacre::cli {

struct ShellArguments {
  bool standalone = false;
  boot::Standalone boot;  // not standalone: the leader's files, if the command line has them
  boot::Way way = boot::Way::automatic;
  std::optional<std::string> secret_file;
  std::optional<int> launch_record;  // a descriptor
  std::uint32_t arity = group::Membership::kDefaultArity;
  bool exit_local = false;
  std::vector<std::string> options;
  std::optional<std::string> initrc;
  std::optional<std::string> record_directory;
  std::optional<std::string> eventlog;
  int verbose = 0;
  bool quiet = false;
  bool explain = false;
  std::string explain_detail;    // brief, env; "": all
  bool explain_plugins = false;  // only the plugins, as JSON
};

std::variant<ShellArguments, Reply> parse_shell_arguments(int argc, char** argv);

// The words of nacre-shell's command line, before they are checked against each other.
struct RawArguments {
  ShellArguments values;
  std::string jobid;  // each of these as it was written
  std::string rank;
  std::string way = "auto";
  std::string explain;
  bool has_way = false;
  bool has_jobspec = false;
  bool has_resources = false;
};

// Reads the words behind the program's name if all of them are options that programs usually give. The parser of
// all options would cost each job a tenth of its shell's work before the tasks start. False: `to` has not changed,
// and read_all() has to read them.
bool read_usual(std::span<char* const> words, RawArguments& to);

// Reads all words. A reply has to be printed, and no job runs.
std::optional<Reply> read_all(int argc, char** argv, RawArguments& to);

}  // namespace nacre::cli
