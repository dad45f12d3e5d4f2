// SPDX-License-Identifier: Apache-2.0
//
// What a command line that runs nothing prints: help, the version, or a usage error.
#pragma once

#include <string>

namespace nacre::cli {

struct Reply {
  int exit_code = 0;  // 0: the text is for stdout; 2, a usage error: for stderr
  std::string text;
};

// `PROGRAM: message`, and a hint at --help. `program` includes the verbs: "nacre archive create".
[[nodiscard]] Reply usage_error(const std::string& program, const std::string& message);

// Prints the reply to stdout or stderr; returns its exit code.
int print(const Reply& reply);

}  // namespace nacre::cli
