// SPDX-License-Identifier: Apache-2.0
//
// The option `pty`, see nacre-shell-options(7), read and checked.
#pragma once

#include "job/options.hpp"

namespace nacre::plugins {

struct PtyOptions {
  value::Idset ranks;        // of the tasks that have a terminal
  bool captures = false;     // their output goes where their stdout goes
  bool interactive = false;  // task 0's is joined to the shell's own

  // `tasks`: how many the job has.
  static Result<PtyOptions> read(const job::Options& options, std::uint64_t tasks);
};

}  // namespace nacre::plugins
