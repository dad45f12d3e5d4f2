// SPDX-License-Identifier: Apache-2.0
#include "plugins/timeline/counters.hpp"

#include <unistd.h>

#include <cmath>

#include "event/children.hpp"

namespace nacre::plugins {

TimelineCounters::TimelineCounters(plugin::Host& host) : host_(host), usage_(JobUsage::of_shell(::getpid())) {}

Result<void> TimelineCounters::start() {
  timer_ = TRY(event::Timer::create(host_.loop(), [this] { look(); }));
  timer_->unref();
  timer_->start(period_, period_);
  look();
  return {};
}

void TimelineCounters::look() {
  constexpr double kMicroseconds = 1e6;
  auto processes = usage_.needs_processes() ? event::Children::descendants() : std::vector<pid_t>();
  if (auto sample = usage_.sample(processes)) {
    host_.timeline().add(timeline::Kind::memory, 0U, static_cast<std::int64_t>(sample->memory));
    host_.timeline().add(timeline::Kind::cpu, 0U, std::llround(sample->cpu * kMicroseconds));
  }
  if (++looks_ % kMostInPeriod != 0) return;
  period_ *= 2;
  timer_->start(period_, period_);
}

}  // namespace nacre::plugins
