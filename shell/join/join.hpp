// SPDX-License-Identifier: Apache-2.0
//
// How the shells of a job come together: each dials its parent, starts its own children if nothing else does, and
// sends its address and the offer of its node; the leader also sends the job. Then every shell knows all of it.
#pragma once

#include "base/log.hpp"
#include "boot/boot.hpp"
#include "boot/identity.hpp"
#include "event/loop.hpp"
#include "join/shell_process.hpp"

namespace nacre::join {

struct Assembled {
  boot::Identity identity;
  std::vector<std::string> options;  // the leader's
  bool has_input = false;            // also the leader's
};

// Makes the process's group, launcher and launch stream. After an error the process's group may wait for give_up().
Result<Assembled> assemble(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log);

// What the leader shows while the shells of a job join, if the launcher has a terminal: after the first second a
// line on standard error, which is erased when all have joined.
class JoinProgress {
 public:
  // The shells that have not joined, as text. Has to be callable as long as this object lives.
  using Missing = std::function<std::vector<std::string>()>;

  // `front`: the beginning of the line.
  static Result<std::unique_ptr<JoinProgress>> show(event::Loop& loop, const std::string& front, Missing missing);
  ~JoinProgress();                             // erases the line
  JoinProgress(const JoinProgress&) = delete;  // the timer's callback refers to it
  JoinProgress& operator=(const JoinProgress&) = delete;

 private:
  explicit JoinProgress(Missing missing) : missing_(std::move(missing)) {}

  Missing missing_;
  int seconds_ = 0;
  std::optional<event::Timer> timer_;
};

}  // namespace nacre::join
