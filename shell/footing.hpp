// SPDX-License-Identifier: Apache-2.0
//
// What a shell stands on, and what it knows of the job as a whole.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "boot/launch_stream.hpp"
#include "boot/launcher.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "group/group.hpp"
#include "guard.hpp"
#include "launch_input.hpp"
#include "value/idset.hpp"

namespace nacre {

// Signals for the job that come from who has launched it; that it has gone ends the job.
struct LauncherEars {
  std::function<void(int signum)> on_signal;
  std::function<void()> on_gone;
  std::optional<Error> gone;
};

// Made before the shell, as the shells have to find each other first.
struct Footing {
  std::unique_ptr<event::Loop> loop;
  std::unique_ptr<event::Children> children;
  std::unique_ptr<Guard> guard;  // where no manager ends what a shell leaves that is killed
  LauncherEars ears;
  std::unique_ptr<LaunchInput> launch_input;          // what its input goes to
  std::unique_ptr<boot::LaunchStream> launch_stream;  // where a launcher has started this shell
  std::unique_ptr<boot::Launcher> launcher;           // where this shell starts others
  std::unique_ptr<group::Group> group;
  bool parted = false;  // from the other shells, in order
};

struct WholeJob {
  std::optional<int> code;    // that all shells have agreed upon
  bool fatal_seen = false;    // an exception that ends the job has come
  bool cut_off = false;       // from the other shells, for good
  int waits = 0;              // for the group, so far: an answer that comes late is told by it
  value::Idset lost;          // shells
  bool tells_losses = false;  // to plugins: they have run shell.post-init
  value::Idset over;          // leader: tasks that have ended, or were of lost shells
  std::vector<std::function<void(std::string_view topic, std::string_view bytes)>> ears;  // of plugins
};

// The code of an error that all shells have alike: the leader's is the one to be told.
inline constexpr int kLeaderSays = -2;

// For a shell that cannot take part after all: ends the job, and leaves the others in order.
void give_up(Footing& footing, group::Rank rank, const Error& why);

}  // namespace nacre
