// SPDX-License-Identifier: Apache-2.0
//
// What a leader keeps to start more shells of its job later, on hosts that it reaches as it has reached the others.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "boot/boot.hpp"
#include "event/children.hpp"
#include "group/directory.hpp"
#include "join/leader_given.hpp"
#include "launch/record.hpp"
#include "transport/secret.hpp"

namespace nacre::join {

// A directory that the shell's guard removes, should the shell be killed while this lives.
class GuardedDirectory {
 public:
  GuardedDirectory() = default;
  // `children` has to outlive it.
  GuardedDirectory(event::Children& children, std::string path) : children_(&children), path_(std::move(path)) {
    children_->guard_directory(path_, true);
  }
  GuardedDirectory(GuardedDirectory&& other) noexcept
      : children_(std::exchange(other.children_, nullptr)), path_(std::move(other.path_)) {}
  GuardedDirectory& operator=(GuardedDirectory&& other) noexcept {
    std::swap(children_, other.children_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~GuardedDirectory() {
    if (children_ != nullptr) children_->guard_directory(path_, false);
  }

 private:
  event::Children* children_ = nullptr;
  std::string path_;
};

struct LaterShells {
  LaterShells(launch::LaunchRecord own, boot::Way way);  // the leader's

  launch::LaunchRecord record;
  // The manager has started the others, and no host is there that it has not given for that.
  bool is_managed = false;
  LeaderGiven given;
  std::optional<transport::Secret> secret;
  std::vector<std::string> addresses;  // of the shells of the job's start, by rank
  GuardedDirectory directory;          // of a socket that the guard was not given at the start
  // A shell that was to join later has not been started, or its agent has failed. Set by who starts them.
  std::function<void(group::Rank, const std::string& why)> on_failed = nullptr;
  // Of a job that has had one shell so far: makes what others need, `secret` and `addresses` too. After an error it
  // is as before.
  std::function<Result<void>()> extend = nullptr;

  // Without R, which all shells have made alike.
  void keep(LeaderGiven leaders);
  // Has to succeed before others can be started or join.
  Result<void> prepare() { return secret ? Result<void>() : extend(); }
  // What the launcher gives such a shell. `resources`: R, as at the job's start; `is_made`: of what the nodes
  // offer; `growth`: elastic::Growth, of those that have joined before.
  [[nodiscard]] std::string lines_of(group::Rank rank, std::string resources, bool is_made,
                                     std::string growth) const;
};

}  // namespace nacre::join
