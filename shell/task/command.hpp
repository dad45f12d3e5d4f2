// SPDX-License-Identifier: Apache-2.0
//
// What to start and how, as data. Everything that the child does between fork and exec is prepared here by the
// parent; the child only makes system calls over it (see spawn.hpp).
#pragma once

#include <sys/resource.h>

#include "job/environment.hpp"
#include "task/settings.hpp"

namespace nacre::task {

// Cpus to run on, in the form of sched_setaffinity(2): bit n of word n/64. Empty: as inherited.
using CpuMask = std::vector<unsigned long>;

// A memory policy in the form of set_mempolicy(2): MPOL_BIND or the like, and bit n of word n/64 for NUMA node n.
struct MemoryPolicy {
  int mode = 0;
  CpuMask nodes;
};

// A running container that a command enters, by the namespaces of a process there. The command stays a child of the
// process that starts it, and keeps its descriptors, limits, cpus and cgroup.
struct Container {
  // If the command's variable has the value `outside` it gets another in the container; none: it is unset there.
  struct Variable {
    std::string name;
    std::optional<std::string> outside, inside;
  };

  int process = -1;    // a pidfd of that process, open in the parent
  int namespaces = 0;  // CLONE_NEWUSER and CLONE_NEWNS, if they differ from the parent's
  std::vector<Variable> variables;
  std::string directory;  // the working directory of a command that names none
};

struct ChildSetup {
  struct Fd {
    int target = 0;  // its number in the child
    int source = 0;  // open in the parent; < 0: /dev/null
  };
  struct Limit {
    int resource = 0;  // RLIMIT_*
    rlimit value{};
  };

  std::vector<Fd> fds;  // all others are closed; 0, 1 and 2 are inherited unless they are targets
  bool new_process_group = true;
  bool new_session = false;  // leads a session, and so a process group, of its own
  // As new_session; the terminal that is its stdin also controls it.
  bool controlling_terminal = false;
  std::optional<std::string> cwd;  // none: as inherited
  std::vector<Limit> limits;
  CpuMask cpus;
  std::optional<MemoryPolicy> memory;  // none: as inherited
  bool is_pretended = false;           // `cpus` and `memory` are of a made-up machine: they are not set
  Settings settings;
  // By SIGKILL, when the thread that started it ends. Not for a command with a terminal, which the kernel hangs up.
  bool ends_with_parent = false;
  bool trace_me = false;  // PTRACE_TRACEME: stops in exec
  // PR_SET_PTRACER: all that the starting process starts may trace it, if Yama lets only ancestors do that. Without
  // Yama this does nothing.
  bool traced_by_siblings = false;
  std::optional<Container> container;  // entered before the working directory is changed to
  bool adopts = false;                 // PR_SET_CHILD_SUBREAPER: orphans below it become its children
  bool opens_io = false;  // the parent gets its /proc/PID/io, open: once it has ended, only root may open that

  [[nodiscard]] int unused_target() const;  // a number above stderr's that is no target in `fds`
};

struct Command {
  std::vector<std::string> argv;  // argv[0] is looked up in the PATH of `env` if it has no '/'
  job::Environment env;
  ChildSetup setup;
  std::vector<std::string> channels = {};  // streams besides stdin, stdout, stderr: see class Channels
  std::map<std::string, std::string> stream_options = {};  // their options
  std::vector<std::string> notes = {};  // why it is set up like this, for people: lines of the plan (--explain)
  std::string label = {};               // for the code that made it; it has no meaning here
};

// Makes the command run in the container: changes its setup, and the variables of its environment.
void enter(Command& command, const Container& container);

// The names of resource limits: those of getrlimit(2) in lower case without RLIMIT_, such as "nofile", for which
// "ofile" is another name.
struct LimitName {
  std::string_view name;
  int resource = 0;  // RLIMIT_*
};

[[nodiscard]] std::span<const LimitName> limit_names();  // all that Linux has, by name
[[nodiscard]] std::optional<int> limit_resource(std::string_view name);
[[nodiscard]] std::optional<std::string_view> limit_name(int resource);

}  // namespace nacre::task
