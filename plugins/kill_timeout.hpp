// SPDX-License-Identifier: Apache-2.0
//
// The option kill-timeout: how long what was asked to end has before SIGKILL.
#pragma once

#include "event/loop.hpp"
#include "job/options.hpp"
#include "plugins/seconds_option.hpp"

namespace nacre::plugins {

inline constexpr event::Seconds kDefaultKillTimeout{5.0};

inline Result<event::Seconds> kill_timeout(const job::Options& options) {
  auto option = options.at("kill-timeout");
  if (!option) return kDefaultKillTimeout;
  return event::Seconds(TRY(seconds_option(*option)).seconds());
}

}  // namespace nacre::plugins
