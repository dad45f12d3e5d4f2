// SPDX-License-Identifier: Apache-2.0
//
// The child's side of a start: the parent prepares it, and the child executes it by system calls alone. Between
// vfork and exec the child runs on its parent's memory, so nothing here that takes a Plan or an Image allocates,
// locks or throws.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "task/command.hpp"
#include "task/failure.hpp"
#include "task/spawn.hpp"

namespace nacre::task {

// The arguments of execve(2). Points into the command, and is not valid once that changes.
struct Image {
  explicit Image(const Command& command);  // argv is not empty

  std::vector<const char*> argv;         // ends with nullptr
  std::vector<const char*> script_argv;  // {"/bin/sh", <the file>, argv[1], ...}, for a script without "#!"
  std::vector<const char*> env;          // ends with nullptr
  std::vector<std::string> candidates;   // the paths to try in order, as execvp(3) would
};

// The signals of this process that have a handler or are ignored. 64 system calls.
[[nodiscard]] std::vector<int> changed_signals();

// What the child does before exec.
struct Plan {
  // `changed`: changed_signals(), of now.
  Plan(const Command& command, std::vector<int> changed);

  void keep(int fd);           // leaves this descriptor open until exec
  void keep_crash_handlers();  // SIGSEGV and the like stay with their handlers until exec

  const ChildSetup& setup;
  pid_t parent;
  std::vector<ChildSetup::Fd> fds;                    // the child changes their sources
  int io_socket = -1;                                 // if set: the child's /proc/self/io goes there (SCM_RIGHTS)
  int max_target = 2;                                 // the highest target, at least that of stderr
  std::vector<std::pair<unsigned, unsigned>> closed;  // descriptors first..last
  unsigned descriptor_limit = 0;                      // for kernels without close_range(2)
  std::vector<int> signals;                           // those with a handler, and those ignored
};

// Spawner::spawn(), for several commands: what `changed` has is read once for all.
tl::expected<Spawned, SpawnError> spawn(const Command& command, const std::vector<int>& changed,
                                        const Spawner::ChildHook& hook = {});

// Each returns what failed, or Step::none. set_up performs the ChildSetup, except trace_me, in an order in which no
// step hinders a later one: limits come last, as a low RLIMIT_NOFILE would hinder others.
Failure set_up(Plan& plan);
void reset_signals(const Plan& plan);  // dispositions to their default, then an empty mask
Failure trace_me();
Failure execute(Image& image);  // returns only if it failed

// Sets this process's own OOM score, as text for /proc/self/oom_score_adj. Returns 0 or an errno.
int set_oom_score(const std::string& text);

}  // namespace nacre::task
