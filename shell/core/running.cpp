// SPDX-License-Identifier: Apache-2.0
//
// The time while tasks run: those of this shell, which may start again, and those of lost shells that come to it.
#include "core/shell.hpp"

namespace nacre::core {

// Until they have ended for good.
void Shell::run_tasks() {
  auto are_over = [this] {
    bool may_start = !restart_.is_idle() || replace_.is_due();
    return tasks_.running() == 0 && (!may_start || end_.is_ending());
  };
  for (;;) {
    loop().run_until([&] { return are_over() || (is_due() && !end_.is_ending()); });
    if (are_over()) return;
    start_due();
  }
}

// While all tasks of this shell are about to start again together, those that come wait.
bool Shell::is_due() const { return restart_.is_due() || (replace_.is_due() && !restart_.is_together()); }

// Those that have come while all were to start again start with them.
void Shell::start_due() {
  auto wait = [this] { shells_.barriers().wait([this] { return start_holds_.empty(); }); };
  while (restart_.is_due() && restart_.is_together() && replace_.is_due() && !end_.is_ending())
    attempt(replace_.take_over());
  attempt(restart_.is_due() ? restart_.start_due(wait) : take_over());
}

// Of a shell without tasks that run, and that may get some: until those of all shells have ended, or it leaves.
void Shell::stand_by() {
  for (;;) {
    shells_.stand_by([this] { return shrink_.leaves() || is_due(); });
    if (!is_due() || end_.is_ending()) return;
    run_tasks();
  }
}

Result<void> Shell::take_over() {
  CHECK_OK(replace_.take_over());
  shells_.barriers().wait([this] { return start_holds_.empty(); });
  bool stands = !end_.is_ending() && !restart_.is_together() && !shrink_.leaves();
  return stands ? restart_.start_tasks() : Result<void>();
}

}  // namespace nacre::core
