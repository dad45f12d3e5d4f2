// SPDX-License-Identifier: Apache-2.0
#include "served_job.hpp"

#include <string_view>

#include <jansson.h>

namespace nacre::pmix {

bool is_fault_tolerant(flux_shell_t* shell) {
  json_t* option = nullptr;
  if (flux_shell_getopt_unpack(shell, "fault-tolerance", "o", &option) <= 0) return false;
  bool zero = json_is_integer(option) && json_integer_value(option) == 0;
  std::string_view text = json_is_string(option) ? json_string_value(option) : "";
  bool off = text == "off" || text == "false" || text == "0";
  return !json_is_false(option) && !json_is_null(option) && !zero && !off;
}

bool may_start_again(flux_shell_t* shell) {
  const char* text = nullptr;
  if (flux_shell_getopt_unpack(shell, "restart", "s", &text) <= 0) return false;
  return std::string_view(text) != "never" && !is_fault_tolerant(shell);
}

}  // namespace nacre::pmix
