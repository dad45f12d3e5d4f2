// SPDX-License-Identifier: Apache-2.0
//
// What the process beside a shell does (guard.hpp), and how the shell tells it: records on a pipe, each written whole.
//
//   1 byte   Kind
//   2 bytes  how many follow
//   bytes    group: a pid_t; directory, no_directory: a path
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/current_call.hpp"

namespace nacre::join {

enum class GuardKind : std::uint8_t {
  group = 1,         // of processes that are to end with the shell
  directory = 2,     // to be removed with all that is in it
  no_directory = 3,  // has been removed
};

// What is longer than a pipe takes whole is not told: "".
[[nodiscard]] std::string guard_record(GuardKind kind, std::string_view body);

struct GuardDuty {
  int records = -1;     // the end of the pipe to read from
  int starter = -1;     // a stream that hangs up when who has started the shell goes; -1: there is none
  pid_t shell = 0;      // the parent of this process
  pid_t session = 0;    // the shell's
  std::string mark;     // NAME=VALUE in the environment of what is to end with the shell; "": none
  std::string watched;  // the begin of a line that tells that the shell stands still; "": somebody else tells it
  std::string socket;   // to be unlinked; "": none
  std::string socket_folder;  // to be removed if it is empty; "": none
  const CallPage* calls = nullptr;
};

// In a forked child, with all signals blocked.
[[noreturn]] void run_guard(const GuardDuty& duty);

}  // namespace nacre::join
