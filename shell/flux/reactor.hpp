// SPDX-License-Identifier: Apache-2.0
//
// The implementation of flux_reactor_t and flux_watcher_t.
#pragma once

#include <optional>
#include <set>
#include <string_view>

#include "capi/callback.hpp"

// The shell's loop, or a plugin's own. References are counted: flux_reactor_incref(3).
struct flux_reactor {
  explicit flux_reactor(nacre::event::Loop& of_shell) : loop(&of_shell) {}
  explicit flux_reactor(std::unique_ptr<nacre::event::Loop> own_loop) : own(std::move(own_loop)), loop(own.get()) {}
  ~flux_reactor() { retire(); }
  flux_reactor(const flux_reactor&) = delete;
  flux_reactor& operator=(const flux_reactor&) = delete;

  // Takes from the loop what is left on it: watchers lose the reactor and never run again, and futures are not
  // continued any more. Frees the shell's watchers: this runs after all code of plugins, so nothing else frees
  // them.
  void retire();

  std::unique_ptr<nacre::event::Loop> own;
  nacre::event::Loop* loop;
  int references = 1;
  bool stopped = false;
  bool failed = false;
  std::optional<double> epoch;  // of the loop's clock, in seconds since the Epoch; none: not used yet
  std::set<flux_watcher*> watchers;
  std::set<flux_future*> futures;  // those that wait on it, or have done so
};

namespace nacre::flux {

// The loop counts whole milliseconds, from the last one that is over: a timer that is started for this time is not
// early by any clock.
inline double never_early(double seconds) { return seconds > 0 ? seconds + 0.001 : seconds; }

}  // namespace nacre::flux

// The part of a watcher that does not depend on what it watches.
struct flux_watcher {
  flux_watcher(flux_reactor* of_reactor, flux_watcher_f function, void* argument, std::string_view what);
  virtual ~flux_watcher();
  flux_watcher(const flux_watcher&) = delete;
  flux_watcher& operator=(const flux_watcher&) = delete;

  void start();
  void stop();
  void keep_running(bool keeps);
  void fire(int revents);  // has to come last, as it may destroy this

  flux_reactor* reactor;
  flux_watcher_f callback;
  void* arg;
  nacre::capi::Callback owner;
  bool active = false;
  bool referenced = true;

 private:
  friend struct flux_reactor;
  // begin() makes the underlying watcher, with `referenced` applied; end() destroys it.
  virtual nacre::Result<void> begin() = 0;
  virtual void end() = 0;
  virtual void set_keeps_running() = 0;
};
