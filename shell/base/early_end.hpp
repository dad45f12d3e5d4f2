// SPDX-License-Identifier: Apache-2.0
//
// A process that a signal ends before it watches for signals runs no destructor. What it has made by then is removed by this.
#pragma once

#include <signal.h>

#include <string>

namespace nacre {

// SIGINT, SIGTERM, SIGHUP and SIGQUIT wait while there is one.
class EndingSignalsHeld {
 public:
  EndingSignalsHeld();
  EndingSignalsHeld(const EndingSignalsHeld&) = delete;
  EndingSignalsHeld& operator=(const EndingSignalsHeld&) = delete;
  ~EndingSignalsHeld();

 private:
  sigset_t before_;
};

// Each of these signals whose action is the default removes `file`, then `directory`, and then ends the process as ever. Both are
// absolute paths that exist for as long as the process has not set an action of its own. Once in a process, or the last call counts;
// a path longer than PATH_MAX is not removed.
void remove_when_ended_early(const std::string& file, const std::string& directory);

}  // namespace nacre
