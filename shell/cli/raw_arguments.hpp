// SPDX-License-Identifier: Apache-2.0
//
// The words of nacre-shell's command line, before anything is asked of them together: see shell_arguments.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/shell_arguments.hpp"

namespace nacre::cli {

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

// Reads the words behind the program's name if all of them are of those that other programs give: each job pays for
// the parser of all, as much as for a tenth of all else that its shell does before the tasks start. False: `to` is
// as it was, and read_all() has to read them.
bool read_usual(std::span<char* const> words, RawArguments& to);

// Reads any. A reply: it is to be printed, and nothing is to be run.
std::optional<Reply> read_all(int argc, char** argv, RawArguments& to);

}  // namespace nacre::cli
