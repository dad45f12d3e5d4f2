// SPDX-License-Identifier: Apache-2.0
//
// What a command line that is not to be run gives instead: help, the version, or a usage error.
#pragma once

#include <string>

namespace nacre::cli {

struct Reply {
  int exit_code = 0;  // 0: the text is for stdout; 2, a usage error: for stderr
  std::string text;
};

// `PROGRAM: message` and where help is to be found. `program` with its verbs: "nacre archive create".
[[nodiscard]] Reply usage_error(const std::string& program, const std::string& message);

// Prints it to where it belongs; its exit code.
int print(const Reply& reply);

}  // namespace nacre::cli
