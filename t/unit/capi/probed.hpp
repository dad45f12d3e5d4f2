// SPDX-License-Identifier: Apache-2.0
//
// A host with one of the plugins dso/probe_*.c, whose handlers check the C API from their own side.
#pragma once

#include "fake_host.hpp"

namespace nacre::plugin {

struct Probed {
  explicit Probed(const std::string& probe, const Json& conf = nullptr);

  // Calls the topic; what the probe did not like is in the log.
  void passes(const std::string& topic) { judge(topic, host.call(topic)); }
  void passes_for_task(const std::string& topic, std::size_t local_id) {
    judge(topic, host.call_task(topic, local_id));
  }
  void judge(const std::string& topic, const Result<int>& called);

  kit::FakeHost host;
};

}  // namespace nacre::plugin
