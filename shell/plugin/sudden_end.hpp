// SPDX-License-Identifier: Apache-2.0
//
// A plugin's handler, or an initrc, that keeps the shell from doing anything else, or ends its process. While it runs, the loop does
// not, and a signal is taken up only when it returns. One line says who it was, then the tasks are killed and the process ends:
//
//   nacre-shell[R]: plugin 'NAME' does not return from TOPIC: ended by a second SIGTERM          with 128 + the signal
//   nacre-shell[R]: plugin 'NAME' called exit(3) in TOPIC                                        with 1
//
// What handles the signals otherwise still gets each of them.
#pragma once

#include <cstdint>
#include <memory>

#include "event/loop.hpp"

namespace nacre::plugin {

// While it lives, a second SIGTERM, SIGINT, SIGHUP or SIGQUIT within one call ends the process; what comes sooner than
// kApart after the first is the same one, sent by two ways. A call that runs the loop is not stuck. One at a time, made after the
// loop's watchers of these signals, and destroyed before them.
class SecondSignal {
 public:
  static constexpr std::int64_t kApart = 100'000'000;  // ns

  static Result<std::unique_ptr<SecondSignal>> create(event::Loop& loop);
  ~SecondSignal();
  SecondSignal(const SecondSignal&) = delete;
  SecondSignal& operator=(const SecondSignal&) = delete;

 private:
  explicit SecondSignal(event::Phase turns);
  event::Phase turns_;
};

// From now on an exit(3) within a call is one that fails, in this process only: what it forks may end as it likes.
void watch_for_exit();

}  // namespace nacre::plugin
