// SPDX-License-Identifier: Apache-2.0
//
// A crash inside a plugin is the plugin's: the process ends with exit code 1 and one line on stderr,
//
//   nacre-shell: plugin 'NAME' crashed in TOPIC (SIGSEGV)
//
// A crash elsewhere goes to whatever handled it before. A signal handler has no argument of its own, so what runs
// now is kept in static variables of crash.cpp.
#pragma once

#include <csignal>
#include <string>

#include "base/current_call.hpp"

namespace nacre::plugin {

// What is done before a plugin's failure ends the process (end_at_once): act(of), maybe from a signal handler, and only in the
// process that has set it. nullptr: nothing. For the tasks: nobody is left to end them.
// In a forked child that runs task.exec: a crash is its parent's to name, by the signal that ends the child.
void leave_crashes_to_parent();
void set_last_act(void (*act)(void* of), void* of);

// Does the last act and ends the process. Safe in a signal handler.
[[noreturn]] void end_at_once(int code);

// While one lives, SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT are caught, on a stack of their own. One at a time.
class CrashGuard {
 public:
  CrashGuard();
  ~CrashGuard();  // restores what was there
  CrashGuard(const CrashGuard&) = delete;
  CrashGuard& operator=(const CrashGuard&) = delete;

 private:
  bool own_stack_ = false;
};

// While one lives, the code of this plugin runs. They nest. Both strings must outlive it, and may change.
class CrashScope {
 public:
  CrashScope(const std::string& plugin, const std::string& topic);
  ~CrashScope();
  CrashScope(const CrashScope&) = delete;
  CrashScope& operator=(const CrashScope&) = delete;

 private:
  CurrentCall call_;
  const std::string* outer_plugin_;
  const std::string* outer_topic_;
};

// The plugin of the innermost scope; "?" outside of any.
[[nodiscard]] std::string running_plugin_name();

}  // namespace nacre::plugin
