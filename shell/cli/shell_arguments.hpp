// SPDX-License-Identifier: Apache-2.0
//
// The command line of nacre-shell; see nacre-shell(1).
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "boot/identity.hpp"

namespace nacre::cli {

struct ShellArguments {
  bool standalone = false;
  boot::Standalone boot;
  std::vector<std::string> options;
  std::optional<std::string> initrc;
  std::optional<std::string> eventlog;
  int verbose = 0;
  bool explain = false;
};

// What to do instead of running: text for stdout (exit 0), or for stderr (exit 2, a usage error).
struct Reply {
  int exit_code = 0;
  std::string text;
};

std::variant<ShellArguments, Reply> parse_shell_arguments(int argc, char** argv);

}  // namespace nacre::cli
