// SPDX-License-Identifier: Apache-2.0
//
// require "nacre": the library of nacre-lua(3). Its Lua files are in one directory, which needs no LUA_PATH; what
// they take of C++ is the module nacre.native. Nothing of it is looked for, or made, before it is required.

#include <glob.h>
#include <libgen.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "base/text.hpp"
#include "exits/record.hpp"
#include "job/options.hpp"
#include "script/binding.hpp"
#include "script/json.hpp"
#include "script/value_types.hpp"
#include "task/command.hpp"
#include "value/duration.hpp"
#include "value/resizing.hpp"

namespace nacre::script {
namespace {

constexpr std::string_view kLibrary = "nacre";
constexpr std::string_view kNative = "nacre.native";

// ---- nacre.native ----------------------------------------------------------------

// (NAME, ARRAY): the nearest of these texts, or nil.
Result<int> nearest_name(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "nacre.nearest");
  std::string_view name = TRY(arguments.text(1, "name"));
  CHECK_OK(arguments.table(2, "known"));
  std::vector<std::string> known;
  auto count = static_cast<lua_Integer>(lua_rawlen(lua, 2));
  for (lua_Integer i = 1; i <= count; ++i) {
    StackMark mark(lua);
    if (lua_rawgeti(lua, 2, i) == LUA_TSTRING) known.emplace_back(text_at(lua, -1));
  }
  if (auto found = nearest(name, known)) {
    push_text(lua, *found);
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

// (PATTERN, TEXT): whether the text matches the glob(7).
Result<int> matches_glob(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "nacre.matches");
  std::string pattern(TRY(arguments.text(1, "pattern")));
  std::string text(TRY(arguments.text(2, "text")));
  lua_pushboolean(lua, glob_match(pattern, text));
  return 1;
}

// (GLOB): the paths that match, files and directories, sorted.
Result<int> matching_files(Interpreter&, lua_State* lua) {
  std::string pattern = TRY(Arguments(lua, "nacre.files").path(1, "glob"));
  std::vector<std::string> files;
  glob_t matches{};
  int failed = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  if (failed == 0) files.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  if (failed == GLOB_NOSPACE) return in("nacre.files", system_error(ENOMEM, pattern));
  std::sort(files.begin(), files.end());
  lua_createtable(lua, static_cast<int>(files.size()), 0);
  lua_Integer index = 0;
  for (const std::string& each : files) {
    push_text(lua, each);
    lua_rawseti(lua, -2, ++index);
  }
  return 1;
}

// (PATH): the path without symbolic links, or nil if it is not there.
Result<int> real_path(Interpreter&, lua_State* lua) {
  std::string path = TRY(Arguments(lua, "nacre.realpath").path(1, "path"));
  std::error_code failed;
  std::filesystem::path real = std::filesystem::canonical(path, failed);
  if (failed) {
    lua_pushnil(lua);
  } else {
    push_text(lua, real.native());
  }
  return 1;
}

// (DURATION): seconds; a number is seconds as it is.
Result<int> seconds_of(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "nacre.seconds");
  auto parsed = value::Duration::parse(TRY(arguments.text(1, "duration")));
  if (!parsed) return arguments.error(1, "duration", parsed.error().message);
  lua_pushnumber(lua, parsed->seconds());
  return 1;
}

// (SIZE): bytes, of a number or of text with a unit, "10M".
Result<int> bytes_of(Interpreter&, lua_State* lua) {
  std::string text(TRY(Arguments(lua, "nacre.bytes").text(1, "size")));
  Json size = lua_type(lua, 1) == LUA_TNUMBER ? Json(lua_tointeger(lua, 1)) : Json(text);
  std::uint64_t bytes = TRY(job::size_option(JsonAt::root(size, "nacre.bytes")));
  lua_pushinteger(lua, static_cast<lua_Integer>(bytes));
  return 1;
}

const char* name_of(exits::Record::Kind kind) {
  using Kind = exits::Record::Kind;
  switch (kind) {
    case Kind::ended: return "ended";
    case Kind::not_started: return "not started";
    case Kind::over_time: return "over time";
    case Kind::lost: return "lost";
    case Kind::gone: return "gone";
    case Kind::victim: break;
  }
  return "victim";
}

// (RECORD): {text, kind, code, status = {code} or {signal, core}}, of a record of nacre-exits(7).
Result<int> read_record(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "nacre.record");
  auto record = exits::Record::parse(TRY(arguments.text(1, "record")));
  if (!record) return arguments.error(1, "record", record.error().message);
  lua_createtable(lua, 0, 4);
  push_text(lua, record->str());
  lua_setfield(lua, -2, "text");
  lua_pushstring(lua, name_of(record->kind()));
  lua_setfield(lua, -2, "kind");
  lua_pushinteger(lua, record->code());
  lua_setfield(lua, -2, "code");
  const auto& status = record->status();
  if (!status) return 1;
  if (status->is_exit()) {
    lua_pushinteger(lua, status->exit_code());
    lua_setfield(lua, -2, "exitcode");
  } else {
    lua_pushinteger(lua, status->signal());
    lua_setfield(lua, -2, "signal");
    lua_pushboolean(lua, status->dumped_core());
    lua_setfield(lua, -2, "core");
  }
  return 1;
}

int open_native(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {
      {"idset", trampoline<make_idset>},     {"hostlist", trampoline<make_hostlist>},
      {"nearest", trampoline<nearest_name>}, {"matches", trampoline<matches_glob>},
      {"files", trampoline<matching_files>}, {"realpath", trampoline<real_path>},
      {"seconds", trampoline<seconds_of>},   {"record", trampoline<read_record>},
      {"bytes", trampoline<bytes_of>},       {"scratch", trampoline<make_scratch>},
      {"space", trampoline<space_of>},       {nullptr, nullptr}};
  add_idset_type(lua);
  add_hostlist_type(lua);
  add_scratch_type(lua);
  lua_newtable(lua);
  luaL_setfuncs(lua, kFunctions, 0);
  return 1;
}

// ---- where require finds it ------------------------------------------------------

// "nacre", "nacre.options": the file of it, below the directory of the library; none for a name that is no such
// module's.
std::optional<std::string> file_of(std::string_view name) {
  if (name == kLibrary) return "nacre.lua";
  if (!name.starts_with(kLibrary) || name.size() < kLibrary.size() + 2 || name[kLibrary.size()] != '.') return {};
  std::string_view part = name.substr(kLibrary.size() + 1);
  bool is_word = std::all_of(part.begin(), part.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  return is_word ? std::optional(fmt::format("nacre/{}.lua", part)) : std::nullopt;
}

// As package.searchers has them: the loader and where it is from, or why there is none.
Result<int> search_library(Interpreter& self, lua_State* lua) {
  std::string_view name = lua_type(lua, 1) == LUA_TSTRING ? text_at(lua, 1) : "";
  if (name == kNative) {
    lua_pushcfunction(lua, open_native);
    lua_pushliteral(lua, ":nacre:");
    return 2;
  }
  auto file = file_of(name);
  if (!file) return 0;
  std::string path = fmt::format("{}/{}", self.library(), *file);
  if (::access(path.c_str(), R_OK) != 0) {
    push_text(lua, fmt::format("no file '{}'", path));
    return 1;
  }
  if (luaL_loadfilex(lua, path.c_str(), "t") != LUA_OK) return Error{kLuaError, std::string(text_at(lua, -1))};
  push_text(lua, path);
  return 2;
}

}  // namespace

// Before those that look into LUA_PATH: what is there may be of another version.
void add_library(lua_State* lua) {
  constexpr lua_Integer kAfterPreload = 2;
  lua_getglobal(lua, "package");
  lua_getfield(lua, -1, "searchers");
  for (auto i = static_cast<lua_Integer>(lua_rawlen(lua, -1)); i >= kAfterPreload; --i) {
    lua_rawgeti(lua, -1, i);
    lua_rawseti(lua, -2, i + 1);
  }
  lua_pushcfunction(lua, trampoline<search_library>);
  lua_rawseti(lua, -2, kAfterPreload);
  lua_pop(lua, 2);
}

// ---- posix module -----------------------------------------------------------------------
//
// A module `posix` of three functions, basename, dirname and setrlimit (of this process, and so of tasks to come),
// for initrc files that need no more of lua-posix, as those of Flux. Debian has no lua-posix for Lua 5.4; where one
// is installed it is found first.

namespace {

constexpr std::string_view kPosix = "posix";

Result<int> base_name(Interpreter&, lua_State* lua) {
  std::string path(TRY(Arguments(lua, "posix.basename").text(1, "path")));
  push_text(lua, ::basename(path.data()));  // that of libgen.h, POSIX's
  return 1;
}

Result<int> directory_name(Interpreter&, lua_State* lua) {
  std::string path(TRY(Arguments(lua, "posix.dirname").text(1, "path")));
  push_text(lua, ::dirname(path.data()));
  return 1;
}

Result<rlim_t> limit_at(lua_State* lua, int index, rlim_t usual) {
  if (lua_isnoneornil(lua, index)) return usual;
  int is_integer = 0;
  const lua_Integer value = lua_tointegerx(lua, index, &is_integer);
  if (is_integer == 0) return invalid(fmt::format("posix.setrlimit: argument {}: expected an integer", index));
  return value < 0 ? RLIM_INFINITY : static_cast<rlim_t>(value);
}

// NAME [, SOFT [, HARD]]: what is nil stays.
Result<int> set_limit(Interpreter&, lua_State* lua) {
  const std::string_view name = TRY(Arguments(lua, "posix.setrlimit").text(1, "resource"));
  const auto resource = task::limit_resource(name);
  if (!resource) return invalid(fmt::format("posix.setrlimit: there is no limit {}", in_quotes(name)));
  rlimit limit{};
  const auto which = static_cast<__rlimit_resource>(*resource);
  bool is_set = ::getrlimit(which, &limit) == 0;
  limit.rlim_cur = TRY(limit_at(lua, 2, limit.rlim_cur));  // NOLINT(readability-magic-numbers)
  limit.rlim_max = TRY(limit_at(lua, 3, limit.rlim_max));  // NOLINT(readability-magic-numbers)
  is_set = is_set && ::setrlimit(which, &limit) == 0;
  if (!is_set) return system_error(errno, fmt::format("posix.setrlimit: {}", name));
  lua_pushinteger(lua, 0);
  return 1;
}

Result<int> absent(Interpreter&, lua_State* lua) {
  std::string_view key = lua_type(lua, 2) == LUA_TSTRING ? text_at(lua, 2) : "?";
  return invalid(
      fmt::format("posix.{}: lua-posix is not installed for Lua 5.4; without it there are only basename, "
                  "dirname and setrlimit",
                  key));
}

Result<int> add_member(Interpreter&, lua_State* lua) { return assign_member(lua, "posix"); }

int open_module(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {{"basename", trampoline<base_name>},
                                            {"dirname", trampoline<directory_name>},
                                            {"setrlimit", trampoline<set_limit>},
                                            {nullptr, nullptr}};
  push_virtual_table(lua, kFunctions, trampoline<absent>, trampoline<add_member>);
  return 1;
}

// As package.searchers has them: the loader and where it is from, or why there is none.
int search(lua_State* lua) {
  if (lua_type(lua, 1) != LUA_TSTRING || text_at(lua, 1) != kPosix) return 0;
  lua_pushcfunction(lua, open_module);
  lua_pushliteral(lua, ":nacre:");
  return 2;
}

}  // namespace

void add_posix_module(lua_State* lua) {
  lua_getglobal(lua, "package");
  lua_getfield(lua, -1, "searchers");
  lua_pushcfunction(lua, search);
  lua_rawseti(lua, -2, static_cast<lua_Integer>(lua_rawlen(lua, -2)) + 1);
  lua_pop(lua, 2);
}

// ---- shrink -----------------------------------------------------------------------------
//
// shell.shrink { hosts = "n[2-3]" } and what the job's leader answers.

namespace {

constexpr std::string_view kShrink = "shell.shrink";

}  // namespace

Result<int> shrink(Interpreter& self, lua_State* lua) {
  Arguments arguments(lua, kShrink);
  CHECK_OK(arguments.table(1, "what"));
  bool has_function = arguments.count() >= 2 && !lua_isnil(lua, 2);
  if (has_function && !lua_isfunction(lua, 2)) return arguments.expected(2, "done", "a function");
  Json what = TRY(in(kShrink, to_json(lua, 1, "what")));
  auto order = TRY(in(kShrink, value::ShrinkOrder::parse(JsonAt::root(what), value::ShrinkOrder::Unknown::refuse)));
  const Interpreter::LuaHandler* done = nullptr;
  if (has_function) {
    lua_settop(lua, 2);
    Interpreter::Context context = self.context();
    context.topic = kShrink;
    done = &self.keep_handler(lua, std::move(context));
  }
  self.wait_for(self.host().shrink(order, [&self, done](const Result<Json>& news, bool is_last) {
    if (is_last && done != nullptr) self.answer(*done, news);
    if (is_last && done == nullptr && !news)
      self.host().log().log(Level::warn, "", "{}: {}", kShrink, news.error().message);
  }));
  return 0;
}

}  // namespace nacre::script
