// SPDX-License-Identifier: Apache-2.0
//
// The time while tasks run: those of this shell, which may start again, and those that a spare takes over.
#include "core/shell.hpp"

namespace nacre::core {

// Until they have ended for good.
void Shell::run_tasks() {
  auto are_over = [this] { return tasks_.running() == 0 && (restart_.is_idle() || end_.is_ending()); };
  for (;;) {
    loop().run_until([&] { return are_over() || (restart_.is_due() && !end_.is_ending()); });
    if (are_over()) return;
    start_due();
  }
}

void Shell::start_due() {
  attempt(restart_.start_due([this] { shells_.wait([this] { return start_holds_.empty(); }); }));
}

// Of a spare: until the others' tasks have ended, or it leaves. Tasks that it gets meanwhile are started, and it is
// a shell like others from then on.
void Shell::stand_by() {
  auto wait = [this] {
    shells_.stand_by([this] { return shrink_.leaves() || replace_.is_due() || restart_.is_due(); });
  };
  for (wait(); restart_.is_due() && !end_.is_ending(); wait()) start_due();
  if (!replace_.is_due() || end_.is_ending()) return;
  attempt(take_over());
  run_tasks();
}

Result<void> Shell::take_over() {
  CHECK_OK(replace_.take_over());
  shells_.wait([this] { return start_holds_.empty(); });
  return end_.is_ending() ? Result<void>() : restart_.start_tasks();
}

}  // namespace nacre::core
