// SPDX-License-Identifier: Apache-2.0
//
// A process beside the shell, which
//
//   - ends what the shell's children have started if the shell is killed: by their process groups, and, for what has left its
//     group, by the mark in its environment (job::kShellMark). Tasks, coprocesses and the like need no help themselves: the kernel ends
//     them with it (ChildSetup::ends_with_parent);
//   - removes the job's directory and the shell's socket then;
//   - kills the shell if who has started it has gone, and a handler does not return, or a signal has stopped the shell for good.
//     One line says so, and names the plugin;
//   - reports that a leader stands still whose launcher, on another host, does not see that;
//   - names the plugin whose handler the shell ends in, if the shell has not.
#pragma once

#include <sys/types.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "event/children.hpp"
#include "join/guard_process.hpp"
#include "transport/socket_directory.hpp"

namespace nacre::join {

class Guard {
 public:
  struct Options {
    const transport::SocketDirectory* socket = nullptr;  // null: there is none
    int starter = -1;                                    // as GuardDuty's; it may be closed behind start()
    std::string mark;                                    // as GuardDuty's
    std::string watched;                                 // as GuardDuty's
  };

  // Before there are threads. `children`, which it guards (Children::guard), has to outlive it.
  static Result<std::unique_ptr<Guard>> start(event::Children& children, const Options& options);
  ~Guard();  // ends it; it does nothing then, but remove directories that are still there
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Guard(event::Children& children, UniqueFd to, pid_t pid) : children_(children), to_(std::move(to)), pid_(pid) {}
  void tell(GuardKind kind, std::string_view body);

  event::Children& children_;
  UniqueFd to_;  // the guard acts when this is closed
  pid_t pid_;    // 0: it has gone
  std::set<std::string> directories_;
};

}  // namespace nacre::join
