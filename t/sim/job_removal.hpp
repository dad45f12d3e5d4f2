// SPDX-License-Identifier: Apache-2.0
//
// How a shell leaves a job that goes on, by an order to shrink, as its half of core/shell_shrink.cpp.
#pragma once

#include "world.hpp"

namespace nacre::sim {

class JobShell;

class JobRemoval {
 public:
  explicit JobRemoval(JobShell& shell) : shell_(shell) {}

  void begin(Time grace);  // of its tasks
  void all_put();          // what its tasks have written has reached the leader
  void taken_out();        // by the log
  [[nodiscard]] bool has_begun() const { return begun_; }
  [[nodiscard]] bool is_over() const { return taken_out_; }

 private:
  void look_whether_ready();

  JobShell& shell_;
  bool begun_ = false, taken_out_ = false, all_put_ = false, is_ready_ = false;
};

}  // namespace nacre::sim
