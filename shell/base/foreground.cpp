// SPDX-License-Identifier: Apache-2.0
#include "base/foreground.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/program.hpp"

namespace nacre {

bool is_in_background(int fd) {
  pid_t foreground = ::tcgetpgrp(fd);
  return foreground >= 0 && foreground != ::getpgrp();
}

// ---- utf8 terminal ----------------------------------------------------------------------

bool is_utf8_locale(std::string_view locale) {
  std::string small(locale);
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small.find("utf-8") != std::string::npos || small.find("utf8") != std::string::npos;
}

bool is_utf8_locale(const VariableLookup& variable) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (auto value = variable(name); value && !value->empty()) return is_utf8_locale(*value);
  }
  return false;
}

bool is_utf8_terminal(int fd) {
  return ::isatty(fd) == 1 && own_variable("TERM").value_or("") != "dumb" && is_utf8_locale(own_variable);
}

}  // namespace nacre
