// SPDX-License-Identifier: Apache-2.0
#include "job_removal.hpp"

#include <csignal>
#include <utility>

#include "job_shell.hpp"

namespace nacre::sim {

void JobRemoval::begin(Time grace) {
  begun_ = true;
  shell_.tasks().end(grace, true);
  look_whether_ready();
}

void JobRemoval::all_put() {
  all_put_ = true;
  look_whether_ready();
}

void JobRemoval::look_whether_ready() {
  if (!begun_ || !all_put_ || std::exchange(is_ready_, true)) return;
  shell_.process().witness().put_ready(shell_.process().id());
}

void JobRemoval::taken_out() {
  taken_out_ = true;
  shell_.ending().left();
  shell_.tasks().kill(SIGKILL);
}

}  // namespace nacre::sim
