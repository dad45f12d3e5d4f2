// SPDX-License-Identifier: Apache-2.0
#include "base/print.hpp"

#include <stdio_ext.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file.hpp"

namespace nacre {

void print_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Result<void> flush_out() {
  bool failed = std::fflush(stdout) != 0;
  int code = errno;
  if (!failed && std::ferror(stdout) == 0) return {};
  ::__fpurge(stdout);
  std::clearerr(stdout);
  if (failed) return system_error(code, "standard output");
  return Error{EIO, "standard output: a part could not be written"};
}

void print_err(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

}  // namespace nacre
