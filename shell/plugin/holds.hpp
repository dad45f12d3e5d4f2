// SPDX-License-Identifier: Apache-2.0
//
// By which plugins make the shell wait, at the start of the job and at its end; a part of Host.
#pragma once

#include <string_view>

#include "base/result.hpp"

namespace nacre::plugin {

class Holds {
 public:
  virtual ~Holds() = default;

  // For work that outlives the last task: the shell does not finish before every named reference is released.
  // hold() returns how many references of this name there are now.
  virtual int hold(std::string_view name) = 0;
  virtual Result<void> release(std::string_view name) = 0;
  // For work that has to be over before the first task is started, and begins in shell.init or shell.post-init: the
  // shell waits, running its loop, until every named reference is released.
  virtual int hold_start(std::string_view name) = 0;
  virtual Result<void> release_start(std::string_view name) = 0;
  // For what may fail on this node in shell.post-init, or holds the start: no shell of the job starts a task before
  // all are ready to, which costs a barrier. To be called in shell.init; one shell that does is enough.
  virtual void start_after_all() = 0;
};

}  // namespace nacre::plugin
