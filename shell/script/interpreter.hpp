// SPDX-License-Identifier: Apache-2.0
//
// The Lua of a shell: one state of Lua 5.4 with the standard libraries and the tables `plugin`, `shell` and `task`,
// in which initrc files run and in which the plugins that they register live. See nacre-shell-initrc(5).
//
// Lifetime: refers to the Host. The plugins that Lua registers in host.stack() call back into this object, so no
// topic may be called once it is gone: the owner of both destroys the stack first. Like all of the shell, one
// thread only.
//
// Errors: kLuaError for a mistake in a Lua file, and its message starts with FILE:LINE:; after shell.die(), or
// where Lua took longer than its time limit, one that host.die() has logged (Error::is_logged), and that no Lua
// code can catch; else an errno of the file that cannot be read.
#pragma once

#include "event/loop.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"

struct lua_Debug;
struct lua_State;

struct lua_State;

namespace nacre::script {

// Shell option `lua-timeout`: how long Lua may take for one call from the shell, a handler or an initrc with all
// that it sources. Unless set, an initrc has kOfFiles, and a handler all the time: it runs as fast as without a
// limit.
//
// The clock is looked at every kInstructions of Lua. What runs too long is stopped by an error that Lua code cannot
// keep: pcall and the like see it, but the next instruction raises it again. A C function (os.execute, io.read) is
// stopped when it returns. Not limited: finalizers (__gc), __close in a coroutine that was stopped, and what
// has called debug.sethook.
class TimeLimit {
 public:
  static constexpr int kInstructions = 1000;
  static constexpr event::Seconds kOfFiles{60};
  enum class RunsWhat { files, handlers };  // what a limit that is not set is for

  // Takes the option as it is now; holds for the call that runs, from now on, too, and for the coroutines that are
  // made from then on. `main`: the main thread of Lua, `running`: the coroutine that runs, or `main`.
  Result<void> read(const job::Options& options, RunsWhat what, lua_State* main, lua_State* running);

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

inline constexpr int kLuaError = EBADMSG;

class Interpreter : Noncopyable {
 public:
  static constexpr int kMaxSourceDepth = 64;  // files that source each other

  // `library`: the directory of nacre.lua, which require finds there. `more_drop_ins`: where shell.source_rcpath
  // looks at last, for files of which none has the name elsewhere; empty: nowhere.
  static Result<std::unique_ptr<Interpreter>> create(plugin::Host& host, std::string library,
                                                     std::string more_drop_ins = "");
  ~Interpreter();  // runs the Lua finalizers; the functions of the shell fail from then on

  // Where a file belongs that was run: named by the caller that runs initrc files, by shell.source_rcpath and the
  // like, or by others.
  enum class FileOf : std::uint8_t { initrc, drop_ins, others };
  struct File {
    std::string path;
    FileOf of;
    std::string text = "";  // if it is none of others
  };

  // A file that begins with `if shell.options.NAME == nil then return end` is not even compiled in a job without
  // that option, unless this is called: most of those in lua.d begin so, and each job would pay for all of them.
  void compile_all() { compiles_all_ = true; }

  // Runs one Lua file (text, no precompiled code). While it runs, and in the callbacks that it registers,
  // shell.rcpath is its directory.
  Result<void> run_file(const std::string& path, FileOf of = FileOf::others);

  // Runs all files that match a glob(7), in the order of their names. A glob may match none; a name without
  // metacharacters must exist, unless `missing` allows that they do not.
  enum class Missing { error, ignore };
  Result<void> source(const std::string& pattern, Missing missing, FileOf of = FileOf::others);

  // Those that were run so far, or begun, in order.
  [[nodiscard]] const std::vector<File>& files() const { return files_; }

  // ---- for the bindings ----

  // On whose behalf Lua runs.
  struct Context {
    std::string component;  // in the log: the plugin's name, else "initrc"
    std::string rcpath;     // absolute
    std::string topic{};    // that a handler is called for; empty while a file runs
  };
  // A function that a Lua plugin registered. Kept until the end, whether or not its plugin is replaced.
  struct LuaHandler {
    int function = 0;  // luaL_ref(3) in the registry
    Context context;
  };
  using Binding = Result<int> (*)(Interpreter&, lua_State*);

  [[nodiscard]] static Interpreter& of(lua_State* lua);
  [[nodiscard]] plugin::Host& host() const { return host_; }
  [[nodiscard]] const Context& context() const { return context_; }
  [[nodiscard]] const std::string& library() const { return library_; }
  [[nodiscard]] const std::string& more_drop_ins() const { return more_drop_ins_; }

  // Takes the function on top of the Lua stack into keeping.
  const LuaHandler& keep_handler(lua_State* lua, Context context);
  // Calls it with the topic and the in arguments; a table that it returns is merged into the out arguments.
  Result<void> handle(const LuaHandler& handler, plugin::Call& call);

  // Keeps what a function waits for, until it has come or the interpreter ends.
  void wait_for(plugin::Registration registration);
  // Calls a function with what it has waited for: with the value, or with nil and why there is none. If it fails
  // the job ends.
  void answer(const LuaHandler& handler, const Result<Json>& news);

  // Ends the job; the error to stop the Lua code with.
  Error die(const std::string& message);

  [[nodiscard]] TimeLimit& time_limit() { return time_limit_; }
  // Takes up the option `lua-timeout` as it is now.
  Result<void> read_time_limit();

  // Runs `binding` with the arguments on the Lua stack: how many results it left there, or -1 and on top the value
  // to raise.
  static int invoke(lua_State* lua, Binding binding);

 private:
  Interpreter(plugin::Host& host, lua_State* lua, std::string library, std::string more_drop_ins)
      : host_(host),
        main_(lua),
        running_(lua),
        library_(std::move(library)),
        more_drop_ins_(std::move(more_drop_ins)) {}

  Result<void> run_chunk(const std::string& path, std::string_view text);
  Result<void> call(int arguments, int results, Context context);
  Error error_on_top(const Context& failed);
  [[nodiscard]] Error death() const { return {ECANCELED, last_words_, true}; }
  Error too_long(const std::string& place, const Context& stopped);

  plugin::Host& host_;
  lua_State* main_;
  lua_State* running_;  // the coroutine that called us last; main_ outside of any
  std::string library_, more_drop_ins_;
  std::vector<File> files_;
  Context context_{"initrc", ""};
  std::deque<LuaHandler> handlers_;  // stable addresses: the plugins refer to them
  std::vector<plugin::Registration> waits_;
  std::string last_words_;  // of shell.die()
  TimeLimit time_limit_;
  int depth_ = 0;  // of files that run
  bool closing_ = false;
  bool compiles_all_ = false;
};

}  // namespace nacre::script
