// SPDX-License-Identifier: Apache-2.0
#include "cli/reply.hpp"

#include <fmt/format.h>

#include "base/print.hpp"

namespace nacre::cli {
Reply usage_error(const std::string& program, const std::string& message) {
  return {2, fmt::format("{}: {}\nTry '{} --help'.\n", program, message, program)};
}

int print(const Reply& reply) {
  if (reply.exit_code == 0)
    print_out(reply.text);
  else
    print_err("{}", reply.text);
  return reply.exit_code;
}

}  // namespace nacre::cli
