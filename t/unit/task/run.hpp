// SPDX-License-Identifier: Apache-2.0
//
// Running commands in tests: start, catch what they write to stdout, wait.
#pragma once

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include "folder.hpp"
#include "task/spawn.hpp"

namespace nacre::task {

// `argv` with PATH=/usr/bin:/bin as its environment.
inline Command command(std::vector<std::string> argv) {
  Command out;
  out.argv = std::move(argv);
  out.env.set("PATH", "/usr/bin:/bin");
  return out;
}

inline Command sh(const std::string& script) { return command({"/bin/sh", "-c", script}); }

inline std::string read_all(int fd) {
  std::string out;
  char bytes[4096];
  for (ssize_t got; (got = ::read(fd, bytes, sizeof bytes)) != 0;) {
    if (got > 0) out.append(bytes, static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  return out;
}

inline int wait_for(pid_t pid) {
  int status = -1;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

struct Outcome {
  std::string out;  // all of stdout
  int status = -1;  // of waitpid
  pid_t pid = 0;
  std::string error;  // why it did not start
  bool in_child = false;
  int exit_code = 0;  // if it did not start
};

// Runs `what` to its end. Its stdout is a pipe.
inline Outcome run(Command& what, const Spawner::ChildHook& hook = {}) {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  what.setup.fds.push_back({1, pipe.write.get()});
  auto spawned = Spawner().spawn(what, hook);
  what.setup.fds.pop_back();
  pipe.write.reset();
  Outcome outcome;
  if (!spawned) {
    outcome.error = spawned.error().error.message;
    outcome.in_child = spawned.error().in_child;
    outcome.exit_code = spawned.error().exit_code;
    return outcome;
  }
  outcome.pid = spawned->pid;
  outcome.out = read_all(pipe.read.get());
  outcome.status = wait_for(spawned->pid);
  return outcome;
}

inline Outcome run(Command&& what, const Spawner::ChildHook& hook = {}) { return run(what, hook); }

// A folder that goes with its files.
struct Folder : kit::TemporaryFolder {
  std::string file(std::string_view name, std::string_view text, mode_t mode = 0755) const {
    std::string made = TemporaryFolder::file(name, text);
    ::chmod(made.c_str(), mode);
    return made;
  }
  std::string folder(std::string_view name) const {
    ::mkdir(path(name).c_str(), 0755);
    return path(name);
  }
};

// The value of a line "NAME:\tVALUE" of a /proc/PID/status.
inline std::string field(const std::string& status, const std::string& name) {
  std::size_t at = ("\n" + status).find("\n" + name + ":\t");
  if (at == std::string::npos) return "no " + name;
  std::size_t begin = at + name.size() + 2;
  return status.substr(begin, status.find('\n', begin) - begin);
}

}  // namespace nacre::task
