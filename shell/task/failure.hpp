// SPDX-License-Identifier: Apache-2.0
//
// How a start failed: as numbers, which the child can pass on, and as text.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "task/command.hpp"

namespace nacre::task {

inline constexpr std::string_view kDefaultPath = "/bin:/usr/bin";  // of execvp(3), where PATH is not set

enum class Step {
  none,
  session,
  process_group,
  oom,
  scheduler,
  affinity,
  memory,
  directory,
  descriptors,
  terminal,
  limit,
  hook,
  trace,
  exec
};

// The step that failed in the child. Small enough for one atomic write to a pipe.
struct Failure {
  Step step = Step::none;
  int code = 0;    // errno
  int detail = 0;  // limit: the resource; descriptors: the target
};

// "cannot set RLIMIT_NOFILE: Operation not permitted"; for exec itself "NAME: No such file or directory", with the
// folders of PATH in which it was looked for, and with the sizes if arguments and environment are too long. The
// code is the failure's.
[[nodiscard]] Error describe(const Command& command, const Failure& failure);

// There is no child, as fork failed with `code`. For EAGAIN the text names the limits that may be the reason.
[[nodiscard]] Error fork_error(int code);

}  // namespace nacre::task
