// SPDX-License-Identifier: Apache-2.0
//
// A process beside the shell, which ends what the shell's children have started if the shell is killed. Tasks, coprocesses and the
// like need no help themselves: the kernel ends them with it (ChildSetup::ends_with_parent). It also removes the shell's socket.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/children.hpp"
#include "transport/socket_directory.hpp"

namespace nacre {

class Guard {
 public:
  // Before there are threads. `children`, which it guards (Children::guard), has to outlive it. `socket`: null: there is none.
  static Result<std::unique_ptr<Guard>> start(event::Children& children, const transport::SocketDirectory* socket);
  ~Guard();  // ends it; it does nothing then
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Guard(event::Children& children, UniqueFd to, pid_t pid) : children_(children), to_(std::move(to)), pid_(pid) {}
  // What the leader of a process group starts belongs to the group, unless it leaves it.
  void add(pid_t leader);

  event::Children& children_;
  UniqueFd to_;  // the guard acts when this is closed
  pid_t pid_;    // 0: it has gone
};

}  // namespace nacre
