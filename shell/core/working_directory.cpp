// SPDX-License-Identifier: Apache-2.0
#include "core/working_directory.hpp"

#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

namespace nacre::core {
namespace {

constexpr const char* kFallbackDirectory = "/tmp";

}  // namespace

Result<void> enter_working_directory(const job::Jobspec& spec, const job::Options& options, Log& log) {
  if (!spec.cwd || ::chdir(spec.cwd->c_str()) == 0) return {};
  Error why = system_error(errno, fmt::format("cannot change to directory {}", *spec.cwd));
  if (!TRY(options.flag("cwd-fallback"))) {
    why.message += fmt::format(" (attributes.system.cwd of the jobspec; with -o cwd-fallback the tasks run in {})",
                               kFallbackDirectory);
    return why;
  }
  log.log(Level::warn, "", "{}; using {} instead", why.message, kFallbackDirectory);
  if (::chdir(kFallbackDirectory) == 0) return {};
  return system_error(errno, fmt::format("cannot change to directory {}", kFallbackDirectory));
}

}  // namespace nacre::core
