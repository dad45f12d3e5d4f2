// SPDX-License-Identifier: Apache-2.0
#include "cli/reply.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace nacre::cli {

Reply usage_error(const std::string& program, const std::string& message) {
  return {2, fmt::format("{}: {}\nTry '{} --help'.\n", program, message, program)};
}

int print(const Reply& reply) {
  std::fputs(reply.text.c_str(), reply.exit_code == 0 ? stdout : stderr);
  return reply.exit_code;
}

}  // namespace nacre::cli
