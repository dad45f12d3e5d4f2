// SPDX-License-Identifier: Apache-2.0
//
// What an OverlayDriver tells whoever brings the shells of a job together, beside what Group::Callbacks has. Each
// may be unset. Called from the loop; they may call members of the driver, but not destroy it.
#pragma once

#include <functional>
#include <string_view>

#include "group/group.hpp"

namespace nacre::group {

struct DriverHooks {
  // Each exception of severity 0 before serve(), which reports them again.
  std::function<void(const JobException&)> on_ended;
  std::function<void()> on_member;  // of a newcomer
  // Each announcement before serve(); true: serve() only reports what comes behind this one.
  std::function<bool(std::string_view topic, std::string_view bytes)> on_announced;
  std::function<void(Rank)> on_child;  // that shell has dialled this one
  // A shell that a shrink has taken out has left, and its link has ended. It counts as gone once `done` is called,
  // at once or later.
  std::function<void(Rank, std::function<void()> done)> on_gone;
  // The job has ended, and that shell, which this one feeds, is lost: it is not waited for.
  std::function<void(Rank)> on_lost_at_end;
};

}  // namespace nacre::group
