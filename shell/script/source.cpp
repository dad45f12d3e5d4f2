// SPDX-License-Identifier: Apache-2.0
//
// The Lua functions that run further files: source, source_if_exists and those of shell.rcpath.
#include <unistd.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "script/binding.hpp"
#include "script/json.hpp"

namespace nacre::script {
namespace {

constexpr std::string_view kDropIns = "lua.d";

// What a Lua function returns that has run files. An error in Lua code names its own place; one about a file is
// ours.
Result<int> done(std::string_view name, Result<void> ran) {
  if (ran) return 0;
  Error error = std::move(ran).error();
  return error.code == kLuaError ? std::move(error) : in(name, std::move(error));
}

Result<int> source(Interpreter& self, lua_State* lua) {
  std::string pattern = TRY(Arguments(lua, "source").path(1, "glob"));
  return done("source", self.source(pattern, Interpreter::Missing::error));
}

Result<int> source_if_exists(Interpreter& self, lua_State* lua) {
  std::string pattern = TRY(Arguments(lua, "source_if_exists").path(1, "glob"));
  return done("source_if_exists", self.source(pattern, Interpreter::Missing::ignore));
}

// The drop-in directory of the file that runs, or the directory of that file if it is such a one.
std::string drop_in_directory(const Interpreter& self) {
  const std::string& rcpath = self.context().rcpath;
  if (rcpath.substr(rcpath.rfind('/') + 1) == kDropIns) return rcpath;
  return fmt::format("{}/{}", rcpath, kDropIns);
}

// `directory` in front of a glob: it is a name, whatever it contains.
std::string escaped(std::string_view directory) {
  std::string text;
  for (char each : directory) {
    if (std::string_view("*?[\\").find(each) != std::string_view::npos) text += '\\';
    text += each;
  }
  return text;
}

Result<int> source_rcpath(Interpreter& self, lua_State* lua) {
  std::string pattern = TRY(Arguments(lua, "shell.source_rcpath").path(1, "pattern"));
  std::string directory = drop_in_directory(self);
  if (is_glob(directory) || is_glob(pattern)) directory = escaped(directory);
  pattern = fmt::format("{}/{}", directory, pattern);
  return done("shell.source_rcpath", self.source(pattern, Interpreter::Missing::ignore));
}

// NAME or NAME@VERSION.
struct Versioned {
  std::string_view name;
  std::string_view version;
};

Versioned split_version(std::string_view value) {
  std::size_t at = value.find('@');
  if (at == std::string_view::npos) return {value, ""};
  return {value.substr(0, at), value.substr(at + 1)};
}

Result<int> getopt_with_version(Interpreter& self, lua_State* lua) {
  std::string name = TRY(Arguments(lua, "shell.getopt_with_version").path(1, "name"));
  const Json* option = self.host().options().find(name);
  if (option == nullptr || !option->is_string()) {
    CHECK_OK(push_json(lua, option != nullptr ? Json(*option) : Json()));
    return 1;
  }
  Versioned value = split_version(option->get_ref<const std::string&>());
  push_text(lua, value.name);
  if (value.version.empty()) return 1;
  push_text(lua, value.version);
  return 2;
}

// Files of an option, from the general one to that of the version; each may be missing.
Result<int> source_rcpath_option(Interpreter& self, lua_State* lua) {
  std::string name = TRY(Arguments(lua, "shell.source_rcpath_option").path(1, "name"));
  const Json* option = self.host().options().find(name);
  if (option == nullptr || !option->is_string()) return 0;
  auto text = option->get<std::string>();
  if (text.empty() || text.find('/') != std::string::npos) {
    return invalid(fmt::format("shell option {}: expected a name, got {}", name, nacre::quoted(text)));
  }
  Versioned value = split_version(text);
  std::string directory = fmt::format("{}/{}", drop_in_directory(self), name);
  std::vector<std::string> files{fmt::format("{}/{}.lua", directory, value.name)};
  if (!value.version.empty()) files.push_back(fmt::format("{}/{}.lua", directory, text));
  for (const std::string& each : files) {
    if (::access(each.c_str(), F_OK) == 0) TRY(done("shell.source_rcpath_option", self.run_file(each)));
  }
  return 0;
}

}  // namespace

void add_source_functions(lua_State* lua) {
  static constexpr luaL_Reg kGlobals[] = {
      {"source", trampoline<source>}, {"source_if_exists", trampoline<source_if_exists>}, {nullptr, nullptr}};
  static constexpr luaL_Reg kShell[] = {{"source_rcpath", trampoline<source_rcpath>},
                                        {"source_rcpath_option", trampoline<source_rcpath_option>},
                                        {"getopt_with_version", trampoline<getopt_with_version>},
                                        {nullptr, nullptr}};
  luaL_setfuncs(lua, kShell, 0);
  lua_pushglobaltable(lua);
  luaL_setfuncs(lua, kGlobals, 0);
  lua_pop(lua, 1);
}

}  // namespace nacre::script
