// SPDX-License-Identifier: Apache-2.0
//
// The signals by which a shell is asked to end its job: once one has come, the job counts as one that ends.
#pragma once

#include <vector>

#include "flux.hpp"
#include "served_job.hpp"

namespace nacre::pmix {

class EndSignals {
 public:
  EndSignals(flux_shell_t* shell, ServedJob& job) : shell_(shell), job_(job) {}
  ~EndSignals() { ignore(); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  void watch();
  void ignore();  // from now on

 private:
  flux_shell_t* shell_;
  ServedJob& job_;
  std::vector<flux_watcher_t*> watchers_;
};

}  // namespace nacre::pmix
