// SPDX-License-Identifier: Apache-2.0
#include "script/interpreter.hpp"

#include <filesystem>

#include "base/current_call.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "capi/loader.hpp"
#include "event/clock.hpp"
#include "script/binding.hpp"
#include "script/json.hpp"

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

Result<std::unique_ptr<Interpreter>> Interpreter::create(plugin::Host& host, std::string library,
                                                         std::string more_drop_ins) {
  lua_State* lua = luaL_newstate();
  if (lua == nullptr) return Error{ENOMEM, "cannot make a Lua state: out of memory"};
  std::unique_ptr<Interpreter> self(new Interpreter(host, lua, std::move(library), std::move(more_drop_ins)));
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
  if (depth_ == kMaxSourceDepth) {
    return Error{ELOOP, fmt::format("{}: {} files source each other (does one source itself?)", path, depth_)};
  }
  const CurrentCall current(context_.component, path);
  files_.push_back({path, of});
  std::string text = TRY(read_file(path == "-" ? "./-" : path));  // it is no standard input
  if (of != FileOf::others) files_.back().text = text;
  Result<void> ran;
  if (++depth_ == 1) ran = read_time_limit();
  if (ran) ran = run_chunk(path, text);
  if (--depth_ > 0) return ran;
  // A plugin that the initrc has loaded may have set it; and what holds for files does not for handlers.
  Result<void> read = read_time_limit();
  return ran ? read : ran;
}

namespace {

bool is_of_name(char each) { return std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '_'; }

// The NAME of a file that begins, behind comments, with `if shell.options.NAME == nil then return end`, or with
// ["NAME"]; "": it begins with something else.
std::string_view needed_option(std::string_view text) {
  constexpr std::string_view kBegin = "if shell.options", kEnd = " == nil then return end";
  constexpr std::string_view kBlanks = " \t\r\n";
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (!text.starts_with("--") || text.starts_with("--[")) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t end = line.find(kEnd);
  const bool is_such = line.starts_with(kBegin) && end != std::string_view::npos &&
                       (end + kEnd.size() == line.size() || !is_of_name(line[end + kEnd.size()]));
  if (!is_such) return "";
  std::string_view name = line.substr(kBegin.size(), end - kBegin.size());
  const bool is_quoted = name.starts_with("[\"") && name.ends_with("\"]") && name.size() > 4;
  if (!is_quoted && !name.starts_with('.')) return "";
  name.remove_prefix(is_quoted ? 2 : 1);
  if (is_quoted) name.remove_suffix(2);
  auto is_plain = [is_quoted](char each) { return is_of_name(each) || (is_quoted && each == '-'); };
  return name != "standalone" && std::all_of(name.begin(), name.end(), is_plain) ? name : "";
}

// As luaL_loadfilex has it: without the mark of UTF-8, and a first line that is for the kernel.
std::string_view chunk_of(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  if (text.starts_with('#'))
    text.remove_prefix(std::min(text.find('\n'), text.size()));  // lines keep their numbers
  return text;
}

}  // namespace

Result<void> Interpreter::run_chunk(const std::string& path, std::string_view text) {
  StackMark mark(running_);
  if (lua_checkstack(running_, LUA_MINSTACK) == 0) return Error{ENOMEM, path + ": the Lua stack is full"};
  const std::string_view chunk = chunk_of(text);
  if (const std::string name(needed_option(chunk)); !name.empty() && !compiles_all_) {
    const Json* value = host_.options().find(name);
    if (value == nullptr || value->is_null()) return {};
  }
  if (luaL_loadbufferx(running_, chunk.data(), chunk.size(), ("@" + path).c_str(), "t") != LUA_OK)
    return error_on_top(context_);
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
  auto what = depth_ > 0 ? TimeLimit::RunsWhat::files : TimeLimit::RunsWhat::handlers;
  return time_limit_.read(host_.options(), what, main_, running_);
}

Error Interpreter::die(const std::string& message) {
  last_words_ = message;
  host_.die(1, context_.component, message);
  return death();
}

// ---- time limit -------------------------------------------------------------------------

namespace {

constexpr const char* kOption = "lua-timeout";

// `unless_set`: what holds without the option.
Result<std::optional<event::Seconds>> limit_of(const job::Options& options,
                                               std::optional<event::Seconds> unless_set) {
  auto option = options.at(kOption);
  if (!option || option->json().is_null()) return unless_set;
  if (option->json() == "none") return std::nullopt;
  constexpr const char* kExpected = "a time above 0 in seconds, a duration such as \"30s\", or \"none\"";
  double seconds = 0;
  if (option->json().is_number()) {
    seconds = option->json().get<double>();
  } else if (option->json().is_string()) {
    seconds = TRY(in(option->path(), value::Duration::parse(TRY(option->string())))).seconds();
  }
  if (seconds <= 0) return option->expected(kExpected);
  if (std::isinf(seconds)) return std::nullopt;
  return event::Seconds(seconds);
}

// Calls the message handler, which is the upvalue, unless the error is to end the Lua code.
int judge(lua_State* lua) {
  if (is_death(lua, 1)) return 1;
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
  return lua_gettop(lua);
}

int after_xpcall(lua_State* lua, int /*status*/, lua_KContext /*context*/) { return lua_gettop(lua); }

int guarded_xpcall(lua_State* lua) {
  luaL_checktype(lua, 2, LUA_TFUNCTION);
  lua_pushvalue(lua, 2);
  lua_pushcclosure(lua, judge, 1);
  lua_replace(lua, 2);
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_callk(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0, after_xpcall);
  return lua_gettop(lua);
}

}  // namespace

// ---- the limit -----------------------------------------------------------------

Result<void> TimeLimit::read(const job::Options& options, RunsWhat what, lua_State* main, lua_State* running) {
  auto limit = TRY(limit_of(options, what == RunsWhat::files ? std::optional(kOfFiles) : std::nullopt));
  if (limit == limit_) return {};
  limit_ = limit;
  if (depth_ == 0) return {};
  start(main);
  if (limit_ && running != main) lua_sethook(running, on_count, LUA_MASKCOUNT, kInstructions);
  return {};
}

void TimeLimit::enter(lua_State* main) {
  if (depth_++ == 0 && limit_) start(main);
}

std::string TimeLimit::leave() {
  if (--depth_ > 0) return stopped_at_;
  return std::exchange(stopped_at_, "");
}

void TimeLimit::start(lua_State* main) {
  if (!limit_) {
    lua_sethook(main, nullptr, 0, 0);
    return;
  }
  deadline_ = event::clock_now() + *limit_;
  // For each coroutine that is made, too.
  lua_sethook(main, on_count, LUA_MASKCOUNT, kInstructions);
}

std::string TimeLimit::str() const { return value::Duration::of_seconds(limit_ ? limit_->count() : 0).str(); }

bool TimeLimit::passed(lua_State* lua, lua_Debug* frame) {
  if (!limit_) {
    lua_sethook(lua, nullptr, 0, 0);
    return false;
  }
  if (stopped_at_.empty()) {
    if (event::clock_now() < deadline_) return false;
    lua_getinfo(lua, "Sl", frame);
    stopped_at_ = fmt::format("{}:{}", frame->short_src, frame->currentline);
  }
  // So that a script that catches the error comes no further.
  lua_sethook(lua, on_count, LUA_MASKCOUNT, 1);
  return true;
}

// No C++ object may be alive where the error is raised.
void TimeLimit::on_count(lua_State* lua, lua_Debug* frame) {
  if (!Interpreter::of(lua).time_limit().passed(lua, frame)) return;
  push_death(lua);
  lua_error(lua);
}

void guard_xpcall(lua_State* lua) {
  lua_getglobal(lua, "xpcall");
  lua_pushcclosure(lua, guarded_xpcall, 1);
  lua_setglobal(lua, "xpcall");
}

// ---- handler ----------------------------------------------------------------------------
//
// What happens when a topic reaches a function that Lua registered.

namespace {

// Where a function begins: FILE:LINE, for a failure without an error of its own.
std::string place_of(lua_State* lua, int function) {
  lua_Debug info{};
  lua_rawgeti(lua, LUA_REGISTRYINDEX, function);
  lua_getinfo(lua, ">S", &info);
  return fmt::format("{}:{}", info.short_src, info.linedefined);
}

// `return false, "why"` and `return -1, "why"`.
Error refusal(lua_State* lua, int function) {
  std::string why(lua_isstring(lua, -1) != 0 ? text_at(lua, -1) : "");
  if (why.empty())
    why = fmt::format("the handler returned {}", lua_isboolean(lua, -2) ? "false" : text_at(lua, -2));
  return {kLuaError, fmt::format("{}: {}", place_of(lua, function), why)};
}

// Judges the two results on top of the stack.
Result<void> judge(lua_State* lua, int function, plugin::Call& call) {
  switch (lua_type(lua, -2)) {
    case LUA_TNIL: return {};
    case LUA_TBOOLEAN:
      if (lua_toboolean(lua, -2) == 0) return refusal(lua, function);
      return {};
    case LUA_TNUMBER:
      if (lua_tonumber(lua, -2) < 0) return refusal(lua, function);
      return {};
    case LUA_TTABLE: {
      Json out = TRY(in(place_of(lua, function), to_json(lua, -2, "result")));
      if (!out.is_object()) break;
      call.out.update(out);
      return {};
    }
    default: break;
  }
  return Error{kLuaError,
               fmt::format("{}: a handler returns nothing, a boolean, a number, or a table of results by "
                           "name; got {}",
                           place_of(lua, function), describe(lua, -2))};
}

}  // namespace

const Interpreter::LuaHandler& Interpreter::keep_handler(lua_State* lua, Context context) {
  int function = luaL_ref(lua, LUA_REGISTRYINDEX);
  return handlers_.emplace_back(LuaHandler{function, std::move(context)});
}

Result<void> Interpreter::handle(const LuaHandler& handler, plugin::Call& call) {
  lua_State* lua = running_;
  StackMark mark(lua);
  if (lua_checkstack(lua, LUA_MINSTACK) == 0) return Error{ENOMEM, "the Lua stack is full"};
  lua_rawgeti(lua, LUA_REGISTRYINDEX, handler.function);
  push_text(lua, call.topic);
  CHECK_OK(in("in arguments", push_json(lua, call.in)));
  CHECK_OK(this->call(2, 2, {handler.context.component, handler.context.rcpath, call.topic}));
  return judge(lua, handler.function, call);
}

void Interpreter::wait_for(plugin::Registration registration) {
  std::erase_if(waits_, [](const plugin::Registration& each) { return !each.active(); });
  if (registration.active()) waits_.push_back(std::move(registration));
}

void Interpreter::answer(const LuaHandler& handler, const Result<Json>& news) {
  lua_State* lua = running_;
  StackMark mark(lua);
  if (lua_checkstack(lua, LUA_MINSTACK) == 0) return host_.die(1, "", "the Lua stack is full");
  lua_rawgeti(lua, LUA_REGISTRYINDEX, handler.function);
  Result<void> called;
  if (news) {
    called = push_json(lua, *news);
    lua_pushnil(lua);
  } else {
    lua_pushnil(lua);
    push_text(lua, news.error().message);
  }
  if (called) called = call(2, 0, handler.context);
  if (!called && !called.error().is_logged) host_.die(1, handler.context.component, called.error().message);
}

}  // namespace nacre::script
