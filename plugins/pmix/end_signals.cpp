// SPDX-License-Identifier: Apache-2.0
#include "end_signals.hpp"

#include <csignal>

namespace nacre::pmix {

void EndSignals::watch() {
  auto received = [](flux_reactor_t*, flux_watcher_t*, int, void* job) {
    static_cast<ServedJob*>(job)->is_ending = true;
  };
  for (int signum : {SIGTERM, SIGINT, SIGHUP}) {
    flux_watcher_t* watcher =
        flux_signal_watcher_create(flux_get_reactor(flux_shell_get_flux(shell_)), signum, received, &job_);
    if (watcher == nullptr) continue;
    flux_watcher_start(watcher);
    flux_watcher_unref(watcher);
    watchers_.push_back(watcher);
  }
}

void EndSignals::ignore() {
  for (flux_watcher_t* watcher : watchers_) flux_watcher_destroy(watcher);
  watchers_.clear();
}

}  // namespace nacre::pmix
