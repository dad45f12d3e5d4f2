// SPDX-License-Identifier: Apache-2.0
//
// The part of a FakeHost that counts what a plugin makes the shell wait for.
#pragma once

#include "plugin/host.hpp"

namespace nacre::kit {

class FakeHolds : public virtual plugin::Holds {
 public:
  int hold(std::string_view name) override { return ++holds[std::string(name)]; }
  Result<void> release(std::string_view name) override;
  int hold_start(std::string_view name) override { return ++start_holds[std::string(name)]; }
  Result<void> release_start(std::string_view name) override;
  void start_after_all() override { starts_after_all = true; }

  std::map<std::string, int> holds;
  std::map<std::string, int> start_holds;
  bool starts_after_all = false;
};

}  // namespace nacre::kit
