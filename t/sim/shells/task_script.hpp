// SPDX-License-Identifier: Apache-2.0
//
// What a made-up task does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nacre::shells {

struct TaskAct {
  enum class Kind : std::uint8_t {
    sleep,
    write,
    close,
    leave,     // a process that nothing ends, and that holds the task's streams
    init,      // of PMI; it and the next two are nothing if the shell offers none
    barrier,   // of PMI
    finalize,  // of PMI
    exit,
    signal
  };
  Kind kind = Kind::exit;
  std::int64_t nanoseconds = 0;  // of sleep
  int stream = 1;                // of write and close
  std::string bytes = {};        // of write
  int code = 0;                  // of exit; the number of a signal
};

struct TaskScript {
  std::uint32_t start = 0;      // which start of the task this is
  int exec_error = 0;           // an errno: the program cannot be executed
  std::vector<TaskAct> acts;    // the last is exit or signal
  bool ignores_term = false;    // and SIGINT, SIGHUP
  int code_at_term = -1;        // its exit code then; -1: the signal ends it
  std::string last_words = {};  // to stdout, before it exits at SIGTERM, unless it is within a line
};

}  // namespace nacre::shells
