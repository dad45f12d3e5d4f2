// SPDX-License-Identifier: Apache-2.0
//
// Shell option `lua-timeout`: how long Lua may take for one call from the shell, a handler or an initrc with all
// that it sources. Unless set, an initrc has kOfFiles, and a handler all the time: it runs as fast as without a
// limit.
//
// The clock is looked at every kInstructions of Lua. What runs too long is stopped by an error that Lua code cannot
// keep: pcall and the like see it, but the next instruction raises it again. A C function (os.execute, io.read) is
// stopped when it returns. Not limited: finalizers (__gc), __close in a coroutine that was stopped, and what
// has called debug.sethook.
#pragma once

#include <optional>
#include <string>

#include "event/loop.hpp"
#include "job/options.hpp"

struct lua_Debug;
struct lua_State;

namespace nacre::script {

class TimeLimit {
 public:
  static constexpr int kInstructions = 1000;
  static constexpr event::Seconds kOfFiles{60};
  enum class Of { files, handlers };  // what a limit that is not set is for

  // Takes the option as it is now; holds for the call that runs, from now on, too, and for the coroutines that are
  // made from then on. `main`: the main thread of Lua, `running`: the coroutine that runs, or `main`.
  Result<void> read(const job::Options& options, Of what, lua_State* main, lua_State* running);

  // Around each call of Lua. Calls within a call have what is left of its time.
  void enter(lua_State* main);
  // FILE:LINE where Lua was stopped, of the outermost call that runs or has just ended; empty if it was not.
  [[nodiscard]] std::string leave();
  [[nodiscard]] bool within_call() const { return depth_ > 0; }

  [[nodiscard]] std::string str() const;  // the limit, as people write it

 private:
  void start(lua_State* main);
  [[nodiscard]] bool passed(lua_State* lua, lua_Debug* frame);
  static void on_count(lua_State* lua, lua_Debug* frame);

  std::optional<event::Seconds> limit_;
  event::Seconds deadline_{};
  std::string stopped_at_;
  int depth_ = 0;
};

// Replaces the global xpcall by one that does not ask the message handler about what ends the Lua code: a hook has
// no effect in there, so a loop in it could not be stopped.
void guard_xpcall(lua_State* lua);

}  // namespace nacre::script
