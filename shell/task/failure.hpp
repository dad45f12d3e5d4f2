// SPDX-License-Identifier: Apache-2.0
//
// How a start fails, as the child can tell it (numbers), and as people read it.
#pragma once

#include "base/result.hpp"
#include "task/command.hpp"

namespace nacre::task {

enum class Step {
  none,
  session,
  process_group,
  oom,
  affinity,
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
// sizes if arguments and environment are too long. The code is the failure's.
[[nodiscard]] Error describe(const Command& command, const Failure& failure);

// There was no child: fork failed with `code`. EAGAIN names the limits that can be behind it.
[[nodiscard]] Error fork_error(int code);

}  // namespace nacre::task
