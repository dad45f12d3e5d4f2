// SPDX-License-Identifier: Apache-2.0
//
// The options prolog, epilog, task-prolog and task-epilog, and the lines that a task-prolog prints for its task.
//
// Such an option is one of
//
//   TEXT                              a command of /bin/sh; "$@" is the command of the job
//   [PROGRAM, ARG...]
//   {"command": one of these, "timeout": DURATION}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "job/options.hpp"
#include "value/duration.hpp"

namespace nacre::plugins {

struct HookCommand {
  std::string name;               // the option and the command, for messages: prolog 'rm -r x'
  std::vector<std::string> argv;  // not empty
  value::Duration timeout = value::Duration::infinite();

  // None if the option is not set. `command`: the job's.
  static Result<std::optional<HookCommand>> read(const job::Options& options, std::string_view option,
                                                 const std::vector<std::string>& command);
};

// One line of a task-prolog's stdout:
//
//   export NAME=VALUE   VALUE is all up to the end of the line, unchanged
//   unset NAME
//   print TEXT
//
// Blanks before NAME do not count. Other lines have no effect.
struct PrologLine {
  static constexpr std::size_t kMaxSize = std::size_t{128} << 10;  // bytes; Linux takes no larger variable

  enum class Kind { set, unset, print, other };
  Kind kind = Kind::other;
  std::string name;
  std::string text;  // VALUE, TEXT

  // `line` has no newline. An error: a name that no variable can have, or a line beyond kMaxSize.
  static Result<PrologLine> parse(std::string_view line);
};

}  // namespace nacre::plugins
