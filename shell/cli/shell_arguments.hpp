// SPDX-License-Identifier: Apache-2.0
//
// The command line of nacre-shell; see nacre-shell(1).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "boot/boot.hpp"
#include "boot/identity.hpp"
#include "cli/reply.hpp"

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

}  // namespace nacre::cli
