// SPDX-License-Identifier: Apache-2.0
#include "script/interpreter.hpp"

#include <unistd.h>

#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "base/current_call.hpp"
#include "base/text.hpp"
#include "capi/loader.hpp"
#include "script/binding.hpp"
#include "script/json.hpp"
#include "script/options.hpp"

namespace nacre::script {
namespace {

constexpr std::string_view kTraceback = "\nstack traceback:";
constexpr int kMaxFrames = 32;  // in which the place of an error is sought

// What ends the Lua code; Lua compares its address only, and has no other value equal to it.
constexpr char kDeath = 0;

// Whether `message` names the place it comes from: has a ":LINE:" in it.
bool has_place(const char* message) {
  for (const char* colon = std::strchr(message, ':'); colon != nullptr; colon = std::strchr(colon + 1, ':')) {
    std::size_t digits = std::strspn(colon + 1, "0123456789");
    if (digits > 0 && colon[1 + digits] == ':') return true;
  }
  return false;
}

// Puts the innermost FILE:LINE: before the message on top. Part of the message handler: no C++ objects here, since
// Lua may raise an error.
void add_place(lua_State* lua) {
  lua_Debug frame{};
  for (int level = 1; level < kMaxFrames && lua_getstack(lua, level, &frame) != 0; ++level) {
    lua_getinfo(lua, "Sl", &frame);
    if (frame.currentline <= 0) continue;
    lua_pushfstring(lua, "%s:%d: %s", frame.short_src, frame.currentline, lua_tostring(lua, -1));
    lua_remove(lua, -2);
    return;
  }
}

int on_error(lua_State* lua) {
  if (is_death(lua, 1)) return 1;
  if (lua_isstring(lua, 1) == 0 && (luaL_callmeta(lua, 1, "__tostring") == 0 || lua_isstring(lua, -1) == 0)) {
    lua_pushfstring(lua, "the error is a %s value", luaL_typename(lua, 1));
  }
  if (!has_place(lua_tostring(lua, -1))) add_place(lua);
  if (Interpreter::of(lua).host().log().wants(Level::debug)) luaL_traceback(lua, lua, lua_tostring(lua, -1), 1);
  return 1;
}

// Lua writes some messages over several lines, as that of require().
std::string one_line(std::string_view text) {
  std::string line;
  for (std::string_view each : split(text, '\n')) {
    each = trim(each);
    if (each.empty()) continue;
    if (!line.empty()) line += line.back() == ':' ? " " : "; ";
    line += each;
  }
  return line;
}

std::string directory_of(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::absolute(path, unknown).lexically_normal().parent_path();
}

// Lua looks in the working directory too, where what is required may be anybody's, and another file on each host.
void keep_absolute_paths(lua_State* lua) {
  lua_getglobal(lua, "package");
  for (const char* name : {"path", "cpath"}) {
    lua_getfield(lua, -1, name);
    std::string kept;
    for (std::string_view each : split(text_at(lua, -1), ';')) {
      if (each.starts_with('/')) kept += (kept.empty() ? "" : ";") + std::string(each);
    }
    lua_pop(lua, 1);
    push_text(lua, kept);
    lua_setfield(lua, -2, name);
  }
  lua_pop(lua, 1);
}

}  // namespace

void push_death(lua_State* lua) { lua_pushlightuserdata(lua, const_cast<char*>(&kDeath)); }

bool is_death(lua_State* lua, int index) {
  return lua_islightuserdata(lua, index) && lua_touserdata(lua, index) == &kDeath;
}

Result<std::unique_ptr<Interpreter>> Interpreter::create(plugin::Host& host, std::string library) {
  lua_State* lua = luaL_newstate();
  if (lua == nullptr) return Error{ENOMEM, "cannot make a Lua state: out of memory"};
  std::unique_ptr<Interpreter> self(new Interpreter(host, lua, std::move(library)));
  *static_cast<Interpreter**>(lua_getextraspace(lua)) = self.get();
  luaL_openlibs(lua);
  keep_absolute_paths(lua);
  guard_xpcall(lua);
  add_array_type(lua);
  add_options_type(lua);
  add_plugin_table(lua);
  add_shell_table(lua);
  add_task_table(lua);
  add_coprocess_table(lua);
  add_posix_module(lua);
  add_library(lua);
  return self;
}

Interpreter& Interpreter::of(lua_State* lua) { return **static_cast<Interpreter**>(lua_getextraspace(lua)); }

Interpreter::~Interpreter() {
  closing_ = true;
  lua_close(main_);
}

// ---- files -----------------------------------------------------------------

Result<void> Interpreter::run_file(const std::string& path, FileOf of) {
  if (::access(path.c_str(), R_OK) != 0) return system_error(errno, path);
  if (depth_ == kMaxSourceDepth) {
    return Error{ELOOP, fmt::format("{}: {} files source each other (does one source itself?)", path, depth_)};
  }
  const CurrentCall current(context_.component, path);
  files_.push_back({path, of});
  Result<void> ran;
  if (++depth_ == 1) ran = read_time_limit();
  if (ran) ran = run_chunk(path);
  if (--depth_ > 0) return ran;
  // A plugin that the initrc has loaded may have set it; and what holds for files does not for handlers.
  Result<void> read = read_time_limit();
  return ran ? read : ran;
}

Result<void> Interpreter::run_chunk(const std::string& path) {
  StackMark mark(running_);
  if (lua_checkstack(running_, LUA_MINSTACK) == 0) return Error{ENOMEM, path + ": the Lua stack is full"};
  if (luaL_loadfilex(running_, path.c_str(), "t") != LUA_OK) return error_on_top(context_);
  return call(0, 0, {context_.component, directory_of(path), context_.topic});
}

Result<void> Interpreter::source(const std::string& pattern, Missing missing, FileOf of) {
  auto files = TRY(capi::glob_files(pattern));
  if (files.empty() && missing == Missing::error && !is_glob(pattern)) return system_error(ENOENT, pattern);
  for (const std::string& each : files) CHECK_OK(run_file(each, of));
  return {};
}

// ---- calls from C++ to Lua and back -----------------------------------------

// Calls the function below `arguments` on the stack of running_.
Result<void> Interpreter::call(int arguments, int results, Context context) {
  lua_State* lua = running_;
  int handler = lua_gettop(lua) - arguments;
  lua_pushcfunction(lua, on_error);
  lua_insert(lua, handler);
  std::swap(context_, context);
  time_limit_.enter(main_);
  int status = lua_pcall(lua, arguments, results, handler);
  std::string stopped_at = time_limit_.leave();
  std::swap(context_, context);
  running_ = lua;
  lua_remove(lua, handler);
  // Even if it has come to its end: what was stopped may have been the last call, in a pcall.
  if (!stopped_at.empty()) return too_long(stopped_at, context);
  if (status != LUA_OK) return error_on_top(context);
  return {};
}

Error Interpreter::too_long(const std::string& place, const Context& stopped) {
  if (!time_limit_.within_call()) {
    last_words_ = fmt::format("{}: {} takes longer than {} (shell option lua-timeout)", place,
                              stopped.topic.empty() ? "this file" : stopped.topic, time_limit_.str());
    host_.die(1, stopped.component, last_words_);
  }
  return death();
}

// The error that a failed call left on the stack. The traceback in it goes to the log.
Error Interpreter::error_on_top(const Context& failed) {
  if (is_death(running_, -1)) return death();
  std::string text(lua_isstring(running_, -1) ? text_at(running_, -1) : "an error without a message");
  std::size_t cut = text.rfind(kTraceback);
  if (cut != std::string::npos) {
    for (std::string_view frame : split(std::string_view(text).substr(cut + kTraceback.size()), '\n')) {
      if (!frame.empty()) host_.log().log(Level::debug, failed.component, "traceback: {}", trim(frame));
    }
    text.resize(cut);
  }
  return {kLuaError, one_line(text)};
}

int Interpreter::invoke(lua_State* lua, Binding binding) {
  Interpreter& self = of(lua);
  lua_State* outer = std::exchange(self.running_, lua);
  Result<int> results = self.closing_ ? invalid("the shell is ending") : binding(self, lua);
  self.running_ = outer;
  if (results) return *results;
  lua_settop(lua, 0);
  if (results.error().is_logged) {
    push_death(lua);
  } else if (results.error().code == kLuaError) {
    push_text(lua, results.error().message);
  } else {
    luaL_where(lua, 1);
    push_text(lua, results.error().message);
    lua_concat(lua, 2);
  }
  return -1;
}

Result<void> Interpreter::read_time_limit() {
  auto what = depth_ > 0 ? TimeLimit::Of::files : TimeLimit::Of::handlers;
  return time_limit_.read(host_.options(), what, main_, running_);
}

Error Interpreter::die(const std::string& message) {
  last_words_ = message;
  host_.die(1, context_.component, message);
  return death();
}

}  // namespace nacre::script
