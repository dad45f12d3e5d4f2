// SPDX-License-Identifier: Apache-2.0
//
// Notes in the timeline, now and then, how much memory and processor time the job's processes of this node use.
#pragma once

#include <optional>

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/sysmon/job_usage.hpp"

namespace nacre::plugins {

class TimelineCounters {
 public:
  static constexpr event::Seconds kPeriod{0.5};
  static constexpr int kMostInPeriod = 256;  // after so many looks the period is doubled

  // To be made before a task is started.
  explicit TimelineCounters(plugin::Host& host);

  Result<void> start();
  void stop() { timer_.reset(); }

 private:
  void look();

  plugin::Host& host_;
  JobUsage usage_;
  std::optional<event::Timer> timer_;
  event::Seconds period_ = kPeriod;
  int looks_ = 0;
};

}  // namespace nacre::plugins
