// SPDX-License-Identifier: Apache-2.0
//
// Functions that are called once some seconds have passed.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "flux.hpp"

namespace nacre::pmix {

class Alarms {
 public:
  explicit Alarms(flux_shell_t* shell) : shell_(shell) {}

  // Calls `function` after so many seconds, on the loop, unless clear() comes first or this object is destroyed.
  void after(double seconds, std::function<void()> function);
  void clear() { alarms_.clear(); }

 private:
  struct Alarm {
    ~Alarm() { flux_watcher_destroy(watcher); }
    std::function<void()> function;
    flux_watcher_t* watcher = nullptr;
  };

  flux_shell_t* shell_;
  std::vector<std::unique_ptr<Alarm>> alarms_;
};

}  // namespace nacre::pmix
