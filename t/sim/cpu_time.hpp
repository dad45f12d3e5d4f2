// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>

namespace nacre::sim {

// What this thread has used between start() and stop().
class CpuTime {
 public:
  void start() { since_ = now(); }
  void stop() { spent_ += now() - since_; }
  void reset() { spent_ = 0; }
  [[nodiscard]] double milliseconds() const { return spent_ * 1e3; }

 private:
  static double now() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }
  double since_ = 0;
  double spent_ = 0;
};

}  // namespace nacre::sim
