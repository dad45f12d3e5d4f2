// SPDX-License-Identifier: Apache-2.0
//
// The Lua functions that run further files: source, source_if_exists and those of shell.rcpath.
#include <unistd.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "capi/loader.hpp"
#include "script/binding.hpp"
#include "script/json.hpp"

namespace nacre::script {
namespace {

constexpr std::string_view kDropIns = "lua.d";
constexpr const char* kMoreDirectories = "FLUX_SHELL_RC_PATH";
constexpr std::string_view kNone = "none";  // the value of an option that asks for no file

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

// Where source_rcpath looks, in this order.
std::vector<std::string> rc_directories(const Interpreter& self) {
  std::vector<std::string> directories{drop_in_directory(self)};
  const char* own = std::getenv(kMoreDirectories);
  const auto more = self.host().environment().get(kMoreDirectories).value_or(own != nullptr ? own : "");
  for (std::string_view each : split(more, ':')) {
    if (!each.empty()) directories.emplace_back(each);
  }
  return directories;
}

// `pattern` in the directory, as a glob or as the name that it is.
std::string pattern_in(const std::string& directory, const std::string& pattern) {
  const bool quotes = is_glob(directory) || is_glob(pattern);
  return fmt::format("{}/{}", quotes ? escape_glob(directory) : directory, pattern);
}

bool is_in_any(const std::vector<std::string>& directories, std::string_view file) {
  return std::any_of(directories.begin(), directories.end(), [&](const std::string& each) {
    return ::access(fmt::format("{}/{}", each, file).c_str(), F_OK) == 0;
  });
}

// Runs those that match in more_drop_ins(), unless one of their name is in the directories.
Result<void> source_more(Interpreter& self, const std::vector<std::string>& directories,
                         const std::string& pattern) {
  const std::string& more = self.more_drop_ins();
  if (more.empty()) return {};
  for (const std::string& path : TRY(capi::glob_files(pattern_in(more, pattern)))) {
    if (is_in_any(directories, std::string_view(path).substr(more.size() + 1))) continue;
    CHECK_OK(self.run_file(path, Interpreter::FileOf::drop_ins));
  }
  return {};
}

Result<int> source_rcpath(Interpreter& self, lua_State* lua) {
  std::string pattern = TRY(Arguments(lua, "shell.source_rcpath").path(1, "pattern"));
  const std::vector<std::string> directories = rc_directories(self);
  for (const std::string& directory : directories) {
    TRY(done("shell.source_rcpath", self.source(pattern_in(directory, pattern), Interpreter::Missing::ignore,
                                                Interpreter::FileOf::drop_ins)));
  }
  return done("shell.source_rcpath", source_more(self, directories, pattern));
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

// The value of an option that names files; none if it asks for none.
Result<std::optional<std::string>> name_in_option(const job::Options& options, const std::string& name) {
  const Json* option = options.find(name);
  if (option == nullptr || option->is_null() || *option == false || *option == kNone) return std::nullopt;
  std::string text = option->is_string() ? option->get<std::string>() : dump_json(*option);
  bool is_name = option->is_string() && !split_version(text).name.empty() && text.find('/') == std::string::npos;
  if (!is_name) return invalid(fmt::format("shell option {}: expected a name, got {}", name, in_quotes(text)));
  return text;
}

// Runs `file` of each directory that has one; how many.
Result<int> run_in_all(Interpreter& self, const std::vector<std::string>& directories, const std::string& file) {
  int ran = 0;
  for (const std::string& each : directories) {
    std::string path = fmt::format("{}/{}", each, file);
    if (::access(path.c_str(), F_OK) != 0) continue;
    TRY(done("shell.source_rcpath_option", self.run_file(path, Interpreter::FileOf::drop_ins)));
    ++ran;
  }
  return ran;
}

Error unknown_name(const std::vector<std::string>& directories, const std::string& option,
                   const std::string& value) {
  std::set<std::string> known{std::string(kNone)};
  for (const std::string& each : directories) {
    auto files = capi::glob_files(fmt::format("{}/{}/*.lua", escape_glob(each), escape_glob(option)));
    if (!files) continue;
    for (const std::string& file : *files) known.insert(std::filesystem::path(file).stem());
  }
  return invalid(
      fmt::format("shell option {}: unknown {}; known: {}", option, in_quotes(value), fmt::join(known, ", ")));
}

// Files of an option, from the general one to that of the version; one of the two may be missing.
Result<int> source_rcpath_option(Interpreter& self, lua_State* lua) {
  std::string name = TRY(Arguments(lua, "shell.source_rcpath_option").path(1, "name"));
  auto text = TRY(name_in_option(self.host().options(), name));
  if (!text) return 0;
  std::vector<std::string> directories = rc_directories(self);
  Versioned value = split_version(*text);
  auto run_in = [&](const std::vector<std::string>& places) -> Result<int> {
    int ran = TRY(run_in_all(self, places, fmt::format("{}/{}.lua", name, value.name)));
    if (!value.version.empty()) ran += TRY(run_in_all(self, places, fmt::format("{}/{}.lua", name, *text)));
    return ran;
  };
  if (TRY(run_in(directories)) > 0) return 0;
  if (self.more_drop_ins().empty()) return unknown_name(directories, name, *text);
  if (TRY(run_in({self.more_drop_ins()})) > 0) return 0;
  directories.push_back(self.more_drop_ins());
  return unknown_name(directories, name, *text);
}

}  // namespace

void add_source_functions(lua_State* lua) {
  static constexpr luaL_Reg kGlobals[] = {
      {"source", trampoline<source>}, {"source_if_exists", trampoline<source_if_exists>}, {nullptr, nullptr}};
  static constexpr luaL_Reg kShell[] = {{"source_rcpath", trampoline<source_rcpath>},
                                        {"source_rcpath_option", trampoline<source_rcpath_option>},
                                        {"getopt_with_version", trampoline<getopt_with_version>},
                                        {nullptr, nullptr}};
  add_functions(lua, kShell);
  lua_pushglobaltable(lua);
  luaL_setfuncs(lua, kGlobals, 0);
  lua_pop(lua, 1);
}

}  // namespace nacre::script
