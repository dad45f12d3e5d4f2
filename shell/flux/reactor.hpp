// SPDX-License-Identifier: Apache-2.0
//
// Behind flux_reactor_t and flux_watcher_t.
#pragma once

#include <optional>
#include <set>
#include <string_view>

#include "capi/callback.hpp"

// The shell's loop, or one of a plugin's own. Counted references: flux_reactor_incref(3).
struct flux_reactor {
  explicit flux_reactor(nacre::event::Loop& of_shell) : loop(&of_shell) {}
  explicit flux_reactor(std::unique_ptr<nacre::event::Loop> own_loop) : own(std::move(own_loop)), loop(own.get()) {}
  ~flux_reactor() { retire(); }
  flux_reactor(const flux_reactor&) = delete;
  flux_reactor& operator=(const flux_reactor&) = delete;

  // Takes from the loop what is left on it: watchers lose the reactor and never run again, futures are not
  // continued any more. The shell's watchers are freed: it goes after all code of plugins, so nobody else will.
  void retire();

  std::unique_ptr<nacre::event::Loop> own;
  nacre::event::Loop* loop;
  int references = 1;
  bool stopped = false;
  bool failed = false;
  std::optional<double> epoch;  // of the loop's clock, in seconds since the Epoch; none: not asked for yet
  std::set<flux_watcher*> watchers;
  std::set<flux_future*> futures;  // that wait on it, or have done so
};

// What a watcher is apart from what it watches.
struct flux_watcher {
  flux_watcher(flux_reactor* of_reactor, flux_watcher_f function, void* argument, std::string_view what);
  virtual ~flux_watcher();
  flux_watcher(const flux_watcher&) = delete;
  flux_watcher& operator=(const flux_watcher&) = delete;

  void start();
  void stop();
  void keep_running(bool keeps);
  void fire(int revents);  // last of all: it may destroy this

  flux_reactor* reactor;
  flux_watcher_f callback;
  void* arg;
  nacre::capi::Callback owner;
  bool active = false;
  bool referenced = true;

 private:
  friend struct flux_reactor;
  // begin() makes what watches, with `referenced` regarded; end() destroys it.
  virtual nacre::Result<void> begin() = 0;
  virtual void end() = 0;
  virtual void set_keeps_running() = 0;
};
