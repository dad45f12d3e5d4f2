// SPDX-License-Identifier: Apache-2.0
#include "base/print.hpp"

#include <stdio_ext.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/program.hpp"

namespace nacre {

namespace {

int first_error = 0;  // of print_out() since the last flush_out()

struct TakesErr {
  pid_t process;
  std::function<bool(std::string_view)> take;
};
TakesErr takes_err;

}  // namespace

void print_out(std::string_view text) {
  bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!is_written && first_error == 0) first_error = errno;
}

Result<void> flush_out() {
  bool failed = std::fflush(stdout) != 0;
  int code = std::exchange(first_error, 0);
  if (code == 0 && failed) code = errno;
  if (!failed && std::ferror(stdout) == 0) return {};
  ::__fpurge(stdout);
  std::clearerr(stdout);
  if (code == 0) return Error{EIO, "standard output: a part could not be written"};
  Error why = system_error(code, "standard output");
  why.is_logged = code == EPIPE;
  return why;
}

void print_err(std::string_view text) {
  if (takes_err.take && takes_err.process == ::getpid() && takes_err.take(text)) return;
  print_last_err(text);
}

void print_last_err(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

std::string coloured(Colour colour, std::string_view line) {
  static const bool shows_colours = [] {
    const std::string none = own_variable("NO_COLOR").value_or("");
    const std::string terminal = own_variable("TERM").value_or("dumb");
    return ::isatty(STDERR_FILENO) == 1 && none.empty() && terminal != "dumb";
  }();
  if (!shows_colours) return std::string(line);
  return fmt::format("\x1b[{}m{}\x1b[0m", colour == Colour::red ? 31 : 33, line);
}

ErrTaker::ErrTaker(std::function<bool(std::string_view)> take) { takes_err = {::getpid(), std::move(take)}; }

ErrTaker::~ErrTaker() { takes_err.take = nullptr; }

}  // namespace nacre
