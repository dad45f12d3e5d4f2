// SPDX-License-Identifier: Apache-2.0
//
// How a shell ends its job, as core/shell_ending.cpp: failures, signals, lost shells, and who has started it.
// The real exits::JobEnd decides.
#pragma once

#include <string>

#include "exits/job_end.hpp"
#include "group/codec.hpp"
#include "world.hpp"

namespace nacre::sim {

class JobShell;

class JobEnding {
 public:
  explicit JobEnding(JobShell& shell) : shell_(shell) {}

  [[nodiscard]] const exits::JobEnd& state() const { return end_; }
  [[nodiscard]] bool is_ending() const { return end_.is_ending(); }

  // A failure here. True: the first one, which all shells have to get.
  bool raised(const exits::Cause& cause) { return end_.raised(cause) == exits::Action::end; }
  bool end_job(const exits::Cause& cause, const std::string& type);  // likewise, and they get it
  void raised_by_any(const group::JobException& exception);
  void cut_off(const std::string& why);
  void lost(Id shell);
  void signal(int signum, bool from_launcher);
  void launcher_gone();

  void left() { end_.left(); }
  void agreed(int code) { end_.agreed(code); }
  [[nodiscard]] int code() const;

 private:
  JobShell& shell_;
  exits::JobEnd end_;
  double interrupted_at_ = -exits::JobEnd::kInterruptWindow - 1;  // seconds
};

}  // namespace nacre::sim
