// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/trace_rights.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::plugins {

std::string trace_setting(const std::string& scope_file) {
  auto text = read_file(scope_file);
  auto scope = text ? parse_u64(trim(*text)) : std::nullopt;
  if (!scope || *scope == 0) return "";
  return fmt::format("kernel.yama.ptrace_scope is {} there{}", *scope,
                     *scope == 1 ? "; -o doctor.trace=on allows it for a job" : "");
}

}  // namespace nacre::plugins
