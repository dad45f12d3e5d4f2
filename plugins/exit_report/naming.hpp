// SPDX-License-Identifier: Apache-2.0
//
// Names the tasks that fail, in one line for all that fail alike within a moment, on all nodes: "task 3, 7-9 on n1:
// exit code 3". What they have written comes out first.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "event/loop.hpp"
#include "exits/record.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class FailureNaming {
 public:
  // It has to outlive it.
  explicit FailureNaming(plugin::Host& host) : host_(host) {}

  // They have ended by themselves, or could not be started.
  Result<void> add(const value::Idset& ranks, const exits::Record& record);
  // What waits is named now.
  void finish();

 private:
  using Failed = std::map<std::string, value::Idset>;  // by the text of their record

  void look();
  Failed take_ready();
  void report(Failed failed);

  plugin::Host& host_;
  Failed failed_;  // that are not named yet
  std::optional<event::Timer> timer_;
  event::Seconds wait_{};         // before the next line
  event::Seconds waits_since_{};  // for output
  std::optional<event::Seconds> named_at_;
};

}  // namespace nacre::plugins
