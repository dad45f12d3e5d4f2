// SPDX-License-Identifier: Apache-2.0
//
// A process that a signal ends before it watches for signals runs no destructor. This removes what it has made by
// then.
#pragma once

#include <signal.h>

#include <string>

namespace nacre {

// SIGINT, SIGTERM, SIGHUP and SIGQUIT wait while one lives.
class EndingSignalsHeld {
 public:
  EndingSignalsHeld();
  EndingSignalsHeld(const EndingSignalsHeld&) = delete;
  EndingSignalsHeld& operator=(const EndingSignalsHeld&) = delete;
  ~EndingSignalsHeld();

 private:
  sigset_t before_;
};

// Each of these signals that has the default action now removes `file`, then `directory`, and then ends the process
// as usual. Both are absolute paths that exist until the process has set an action of its own. Only the last call
// in a process counts; a path longer than PATH_MAX is not removed.
void remove_when_ended_early(const std::string& file, const std::string& directory);

}  // namespace nacre
