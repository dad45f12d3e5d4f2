// SPDX-License-Identifier: Apache-2.0
//
// For a plugin's handler, or an initrc, that blocks the shell or ends its process. While it runs the loop does not,
// so signals are handled only when it returns. One line names it, then the tasks are killed and the process ends:
//
//   nacre-shell[R]: plugin 'NAME' does not return from TOPIC: ended by a second SIGTERM          with 128 + the
//                                                                                                signal
//   nacre-shell[R]: plugin 'NAME' called exit(3) in TOPIC                                        with 1
//
// The previous handlers of the signals still get each of them.
#pragma once

#include <cstdint>
#include <memory>

#include "event/loop.hpp"

namespace nacre::plugin {

// While it lives, a second SIGTERM, SIGINT, SIGHUP or SIGQUIT within one call ends the process. A signal that comes
// less than kApart after the first counts as the same one, sent in two ways. A call that runs the loop is not
// stuck. There is one at a time; it is made after the loop's watchers of these signals, and destroyed before them.
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

// From now on an exit(3) within a call counts as a failure, in this process only: its forked children may exit as
// they like.
void watch_for_exit();

}  // namespace nacre::plugin
