// SPDX-License-Identifier: Apache-2.0
//
// What the plugin `timeline` offers to other plugins.
#pragma once

#include "plugin/host.hpp"
#include "timeline/facts.hpp"

namespace nacre::plugins {

class TimelineSource {
 public:
  virtual ~TimelineSource() = default;
  [[nodiscard]] virtual bool is_on() const = 0;
  // On the leader: `done` is called once, from here or from the loop, with what all shells have kept so far. EBUSY:
  // too many collections are under way.
  virtual Result<void> collect(std::function<void(const timeline::JobTimeline&)> done) = 0;
  // On the leader, once the job has ended: the members of EntryEnd::timeline; null: it is off.
  [[nodiscard]] virtual Json kept() const = 0;
};

// The plugin `timeline`; null: another plugin has replaced it.
[[nodiscard]] TimelineSource* timeline_of(plugin::Host& host);

}  // namespace nacre::plugins
