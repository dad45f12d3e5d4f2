// SPDX-License-Identifier: Apache-2.0
//
// A crash inside a plugin is reported as the plugin's: the process ends with exit code 1 and one line on stderr,
//
//   nacre-shell: plugin 'NAME' crashed in TOPIC (SIGSEGV)
//
// A crash elsewhere goes to its previous handler. A signal handler has no argument of its own, so static variables
// of crash.cpp keep what runs now.
#pragma once

#include "base/current_call.hpp"
#include "event/loop.hpp"

namespace nacre::plugin {

// In a forked child that runs task.exec: leaves a crash to the parent, which reports the signal that has ended the
// child.
void leave_crashes_to_parent();
// Sets a function that end_at_once() calls as act(of) before a plugin's failure ends the process: possibly from a
// signal handler, and only in the process that has set it; nullptr: none. The function ends the tasks, as nothing
// else does then.
void set_last_act(void (*act)(void* of), void* of);

// Performs the last act and ends the process. Safe in a signal handler.
[[noreturn]] void end_at_once(int code);

// While one lives, SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT are caught, on a stack of their own. There is one at
// a time.
class CrashGuard : Noncopyable {
 public:
  CrashGuard();
  ~CrashGuard();  // restores the handlers

 private:
  bool own_stack_ = false;
};

// While one lives, the code of this plugin runs. Scopes nest. Both strings must outlive it, and may change.
class CrashScope : Noncopyable {
 public:
  CrashScope(const std::string& plugin, const std::string& topic);
  ~CrashScope();

 private:
  CurrentCall call_;
  const std::string* outer_plugin_;
  const std::string* outer_topic_;
};

// The plugin of the innermost scope; "?" outside of scopes.
[[nodiscard]] std::string running_plugin_name();

// For a plugin's handler, or an initrc, that blocks the shell or ends its process. While the handler runs the loop
// does not, so signals wait until it returns. One line names it, then the tasks are killed and the process ends:
//
//   nacre-shell[R]: plugin 'NAME' does not return from TOPIC: ended by a second SIGTERM          with 128 + the
//                                                                                                signal
//   nacre-shell[R]: plugin 'NAME' called exit(3) in TOPIC                                        with 1
//
// The previous handlers still get each signal.

// While it lives, a second SIGTERM, SIGINT, SIGHUP or SIGQUIT within one call ends the process. A signal that comes
// less than kApart after the first counts as the same one, sent in two ways. A call that runs the loop is not
// stuck. There is one at a time; it is made after the loop's watchers of these signals, and destroyed before them.
class SecondSignal : Noncopyable {
 public:
  static constexpr std::int64_t kApart = 100'000'000;  // ns

  static Result<std::unique_ptr<SecondSignal>> create(event::Loop& loop);
  ~SecondSignal();

 private:
  explicit SecondSignal(event::Phase turns);
  event::Phase turns_;
};

// From now on an exit(3) within a call counts as a failure, in this process only: its forked children may exit as
// they like.
void watch_for_exit();

}  // namespace nacre::plugin
