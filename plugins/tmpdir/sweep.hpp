// SPDX-License-Identifier: Apache-2.0
//
// Removes what earlier shells of this user have left in a folder because they were killed or their host went down:
// the directories of jobs and of sockets whose owner is gone (base/owned_directory.hpp). It looks from the loop,
// once the tasks run, at a few names at a time. The removal may take long, so a process of its own does it, which
// ends with the shell. One line in the log names what is removed.
#pragma once

#include <optional>
#include <string>

#include "base/owned_directory.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

class Sweep {
 public:
  // Both have to outlive it.
  Sweep(plugin::Host& host, const plugin::Plugin& plugin) : host_(host), plugin_(plugin) {}
  // `own`: this shell's directory in `parent`; those that are newer belong to shells that begin.
  Result<void> start(const std::string& parent, LeftDirectories::OthersLook others_look, const OwnedDirectory& own);

 private:
  void look();
  void remove();

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  std::optional<event::Timer> timer_;
  std::optional<LeftDirectories> left_;
};

}  // namespace nacre::plugins
