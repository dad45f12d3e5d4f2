// SPDX-License-Identifier: Apache-2.0
//
// One look at a process, by proc(5).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace nacre::plugins {

struct ProcessLook {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;    // of its program, at most 15 bytes
  char state = '?';    // as in proc(5)
  double cpu = 0;      // seconds that all of its threads have run
  double ready = 0;    // seconds that its first thread was ready to run and did not
  double started = 0;  // seconds since the boot
  std::uint64_t threads = 1;
  std::uint64_t moved = 0;  // bytes read and written, by system calls; 0 if that may not be known
  std::string where;        // the function of the kernel in which its first thread waits; "": in none, or unknown
};

// As ProcessLook::moved.
[[nodiscard]] std::uint64_t bytes_moved_by(pid_t pid);

// None: it is gone.
[[nodiscard]] std::optional<ProcessLook> look_at(pid_t pid);

// Whether its cgroup, of version 2 or 1, is frozen. Only where the look is that of a process which may be, files of
// /proc and of cgroups are read.
[[nodiscard]] bool is_frozen(const ProcessLook& look);

// The system call in which the process's first thread is.
struct SystemCall {
  std::string name;  // "read"; "" if it is in none
  int fd = -1;       // that a read or write is about; -1: none
};
// EPERM, EACCES: this may not be known. ESRCH: it is gone.
struct CallAnswer {
  SystemCall call;
  int code = 0;
};
[[nodiscard]] CallAnswer current_call(pid_t pid);

// What a process that waits in `where` does, where its system call may not be known; `object` as in doctor::Fact.
struct GuessedCall {
  std::string name, object;
};
[[nodiscard]] GuessedCall call_by_place(const std::string& where);

// What a descriptor is.
struct DescriptorKind {
  std::string object;  // as in doctor::Fact; "": unknown
  std::string path;    // of a file or a FIFO with a name
  std::string link;    // as /proc/PID/fd has it: equal for both ends of a pipe
};
[[nodiscard]] DescriptorKind kind_of_descriptor(pid_t pid, int fd);

}  // namespace nacre::plugins
