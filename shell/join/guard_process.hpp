// SPDX-License-Identifier: Apache-2.0
//
// What the process beside a shell does (guard.hpp), and what the shell sends it: records on a pipe, each written as
// a whole.
//
//   1 byte   Kind
//   2 bytes  how many bytes follow
//   bytes    group, left_group, no_group: a pid_t; directory, no_directory, entry: a path; command: its words, each
//            with a NUL behind it
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/current_call.hpp"

namespace nacre::join {

enum class GuardKind : std::uint8_t {
  group = 1,         // a process group that ends with the shell; its leader has not been reaped
  left_group = 7,    // its leader has, others of it have not ended
  no_group = 8,      // all of it has ended: another one may get its number
  directory = 2,     // has to be removed with all that is in it
  no_directory = 3,  // was removed
  detached = 5,      // nobody has started the shell any more; messages go to this file
  entry = 4,         // of the job in the list of jobs; "": it needs nothing any more
  command = 6,       // has to be run; no words: none
};

// "" if the record is longer than a pipe takes as a whole.
[[nodiscard]] std::string guard_record(GuardKind kind, std::string_view body);

struct GuardDuty {
  int records = -1;   // the end of the pipe to read from
  int starter = -1;   // a stream that hangs up when the process that started the shell goes; -1: there is none
  pid_t shell = 0;    // the parent of this process
  pid_t session = 0;  // the shell's
  std::string mark;   // NAME=VALUE in the environment of the processes that end with the shell; "": none
  // The start of the line that reports a standstill of the shell; "": another process reports it
  std::string watched;
  std::string socket;         // has to be unlinked; "": none
  std::string socket_folder;  // has to be removed if it is empty; "": none
  const CallPage* calls = nullptr;
};

// Runs in a forked child, with all signals blocked.
[[noreturn]] void run_guard(const GuardDuty& duty);

}  // namespace nacre::join
