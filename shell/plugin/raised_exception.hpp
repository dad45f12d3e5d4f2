// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "exits/record.hpp"
#include "value/wait_status.hpp"

namespace nacre::plugin {

// An exception of the job, as in flux_shell_raise(3).
struct RaisedException {
  std::string type = "exec";  // one word
  int severity = 0;           // 0 ends the job; 1 to 7 are notes
  std::string message;
  std::optional<value::WaitStatus> status;  // gives the job's exit code, whatever the codes of the tasks
  // The end of a task that is the reason: then the job's exit policy decides. A victim's, of a task that still
  // runs, only names the task that has ended the job.
  std::optional<exits::TaskEnd> task = {};
};

}  // namespace nacre::plugin
