// SPDX-License-Identifier: Apache-2.0
//
// The Lua table `shell`: facts of the job, its options and environment, the log.

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "capi/loader.hpp"
#include "job/environment.hpp"
#include "job/options.hpp"
#include "script/binding.hpp"
#include "script/json.hpp"

struct lua_State;

namespace nacre::script {
namespace {

using Pointer = Json::json_pointer;

constexpr const char* kType = "nacre.options";
constexpr int kMaxVerbosity = 2;
constexpr char kPathKey = 0;  // its address is the key under which a table keeps its place, a JSON pointer

// ---- where a table stands ----------------------------------------------------

Result<Pointer> place(lua_State* lua, int index) {
  if (!is_options(lua, index)) return invalid("shell.options: not a part of it: " + describe(lua, index));
  StackMark mark(lua);
  lua_rawgetp(lua, index, &kPathKey);
  return Pointer(std::string(text_at(lua, -1)));
}

void push_part(lua_State* lua, const Pointer& pointer) {
  lua_newtable(lua);
  push_text(lua, pointer.to_string());
  lua_rawsetp(lua, -2, &kPathKey);
  luaL_setmetatable(lua, kType);
}

// "shell.options.output.stdout", as people write it.
std::string spell(const Pointer& pointer, std::string_view key = "") {
  std::string name = "shell.options";
  for (char c : pointer.to_string()) name += c == '/' ? '.' : c;
  return key.empty() ? name : fmt::format("{}.{}", name, key);
}

const Json* locate(const Json& document, const Pointer& pointer) {
  const Json& found = find_at(document, pointer);
  return found.is_null() ? nullptr : &found;
}

// The place of the member that the key at `key` names; none if no member can have such a name.
std::optional<Pointer> member(lua_State* lua, const Pointer& parent, const Json& node, int key) {
  if (node.is_array() && lua_isinteger(lua, key) != 0) {
    lua_Integer index = lua_tointeger(lua, key);
    if (index < 1 || static_cast<std::size_t>(index) > node.size()) return std::nullopt;
    return parent / static_cast<std::size_t>(index - 1);
  }
  if (!node.is_object() || lua_type(lua, key) != LUA_TSTRING) return std::nullopt;
  std::string name(text_at(lua, key));
  if (!parent.empty()) return parent / name;
  Pointer pointer;
  for (std::string_view each : split(name, '.')) pointer /= std::string(each);
  return pointer;
}

// ---- reading -----------------------------------------------------------------

Result<void> push_value(lua_State* lua, const Json& document, const Pointer& pointer) {
  const Json* value = locate(document, pointer);
  if (value != nullptr && value->is_structured()) {
    push_part(lua, pointer);
    return {};
  }
  // A copy: pushing may run a finalizer, which may change the options.
  return push_json(lua, value == nullptr ? Json() : Json(*value));
}

bool is_key(lua_State* lua, int index, std::string_view name) {
  return lua_type(lua, index) == LUA_TSTRING && text_at(lua, index) == name;
}

Result<int> read(Interpreter& self, lua_State* lua) {
  Pointer parent = TRY(place(lua, 1));
  if (parent.empty() && is_key(lua, 2, "verbose")) {
    lua_pushinteger(lua, verbosity(self.host().log()));
    return 1;
  }
  if (parent.empty() && is_key(lua, 2, "standalone")) {
    lua_pushboolean(lua, self.host().standalone() ? 1 : 0);
    return 1;
  }
  if (parent.empty() && lua_type(lua, 2) == LUA_TSTRING) self.host().options().ask(text_at(lua, 2));
  const Json& document = self.host().options().json();
  const Json* node = locate(document, parent);
  auto pointer = node != nullptr ? member(lua, parent, *node, 2) : std::nullopt;
  if (!pointer) {
    lua_pushnil(lua);
  } else {
    CHECK_OK(push_value(lua, document, *pointer));
  }
  return 1;
}

Result<int> length(Interpreter& self, lua_State* lua) {
  const Json* node = locate(self.host().options().json(), TRY(place(lua, 1)));
  lua_pushinteger(lua, node != nullptr && node->is_array() ? static_cast<lua_Integer>(node->size()) : 0);
  return 1;
}

// next(), whatever a script may have made of that name.
int next(lua_State* lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_settop(lua, 2);
  if (lua_next(lua, 1) != 0) return 2;
  lua_pushnil(lua);
  return 1;
}

// For pairs(): next, and a plain table of what is set now.
Result<int> iterate(Interpreter& self, lua_State* lua) {
  Pointer parent = TRY(place(lua, 1));
  Json node = options_json(lua, 1);
  const Json& document = self.host().options().json();
  lua_pushcfunction(lua, next);
  lua_newtable(lua);
  if (node.is_array()) {
    for (std::size_t i = 0; i < node.size(); ++i) {
      CHECK_OK(push_value(lua, document, parent / i));
      lua_rawseti(lua, -2, static_cast<lua_Integer>(i) + 1);
    }
  } else if (node.is_object()) {
    for (const auto& [key, unused] : node.items()) {
      push_text(lua, key);
      CHECK_OK(push_value(lua, document, parent / key));
      lua_rawset(lua, -3);
    }
  }
  return 2;
}

Result<int> text(Interpreter&, lua_State* lua) {
  push_text(lua, dump_json(options_json(lua, 1)));
  return 1;
}

// Notes that the Lua code that runs has set the option: "site.lua:7".
void note(Interpreter& self, lua_State* lua, const std::string& path) {
  lua_Debug at{};
  bool is_known = lua_getstack(lua, 1, &at) != 0 && lua_getinfo(lua, "Sl", &at) != 0 && at.source[0] == '@';
  self.host().options().note_setter(
      path, is_known ? fmt::format("{}:{}", at.source + 1, at.currentline) : self.context().component);
}

// ---- writing -----------------------------------------------------------------

Result<int> write_top(Interpreter& self, lua_State* lua) {
  if (lua_type(lua, 2) != LUA_TSTRING) {
    return invalid(fmt::format("shell.options: a name must be a string, got {}", describe(lua, 2)));
  }
  std::string name(text_at(lua, 2));
  if (name == "standalone") return Error{EPERM, "shell.options.standalone is read-only"};
  Json value = TRY(to_json(lua, 3, spell(Pointer(), name)));
  if (name == "verbose") {
    CHECK_OK(set_verbosity(self.host(), value, "shell.options.verbose"));
  } else if (value.is_null()) {
    self.host().options().unset(name);
  } else {
    self.host().options().set(name, std::move(value));
  }
  note(self, lua, name);
  CHECK_OK(self.read_time_limit());
  return 0;
}

Result<void> write_element(Json& array, lua_Integer index, Json value, const std::string& name) {
  auto size = static_cast<lua_Integer>(array.size());
  bool removes = value.is_null();
  if (index < 1 || index > size + 1 || (removes && index < size)) {
    return invalid(
        fmt::format("{}: cannot {} element {} of an array of {}", name, removes ? "remove" : "set", index, size));
  }
  if (removes && index == size) {
    array.erase(array.size() - 1);
  } else if (!removes && index > size) {
    array.push_back(std::move(value));
  } else if (!removes) {
    array[static_cast<std::size_t>(index) - 1] = std::move(value);
  }
  return {};
}

Result<int> write(Interpreter& self, lua_State* lua) {
  Pointer parent = TRY(place(lua, 1));
  if (parent.empty()) return write_top(self, lua);
  job::Options& options = self.host().options();
  if (locate(options.json(), parent) == nullptr) return invalid(fmt::format("{} is no longer set", spell(parent)));
  Json document = options.json();
  Json& node = document.at(parent);
  if (node.is_array() && lua_isinteger(lua, 2) != 0) {
    Json value = TRY(to_json(lua, 3, spell(parent)));
    CHECK_OK(write_element(node, lua_tointeger(lua, 2), std::move(value), spell(parent)));
  } else if (node.is_object() && lua_type(lua, 2) == LUA_TSTRING) {
    std::string name(text_at(lua, 2));
    Json value = TRY(to_json(lua, 3, spell(parent, name)));
    if (value.is_null()) {
      node.erase(name);
    } else {
      node[name] = std::move(value);
    }
  } else {
    return invalid(
        fmt::format("{} is {}: {} cannot be a key in it", spell(parent), node.type_name(), describe(lua, 2)));
  }
  std::string path = spell(parent).substr(spell(Pointer()).size() + 1);
  while (!parent.parent_pointer().empty()) parent.pop_back();
  options.set(parent.back(), document.at(parent));
  note(self, lua, lua_type(lua, 2) == LUA_TSTRING ? fmt::format("{}.{}", path, text_at(lua, 2)) : path);
  return 0;
}

}  // namespace

void add_options_type(lua_State* lua) {
  static constexpr luaL_Reg kMethods[] = {{"__index", trampoline<read>},    {"__newindex", trampoline<write>},
                                          {"__len", trampoline<length>},    {"__pairs", trampoline<iterate>},
                                          {"__tostring", trampoline<text>}, {nullptr, nullptr}};
  luaL_newmetatable(lua, kType);
  luaL_setfuncs(lua, kMethods, 0);
  lua_pushliteral(lua, "shell.options");
  lua_setfield(lua, -2, "__metatable");
  lua_pop(lua, 1);
}

int verbosity(const Log& log) {
  return std::clamp(static_cast<int>(log.level()) - static_cast<int>(Level::notice), 0, kMaxVerbosity);
}

Result<void> set_verbosity(plugin::Host& host, const Json& value, std::string_view name) {
  std::int64_t number = 0;
  if (value.is_boolean()) {
    number = value.get<bool>() ? 1 : 0;
  } else {
    number = TRY(JsonAt::root(value, std::string(name)).integer(0));
  }
  auto level = static_cast<int>(Level::notice) + static_cast<int>(std::min<std::int64_t>(number, kMaxVerbosity));
  host.log().set_level(static_cast<Level>(level));
  host.options().set("verbose", number);
  return {};
}

void push_options(lua_State* lua) { push_part(lua, Pointer()); }

bool is_options(lua_State* lua, int index) {
  StackMark mark(lua);
  if (lua_getmetatable(lua, index) == 0) return false;
  luaL_getmetatable(lua, kType);
  return lua_rawequal(lua, -1, -2) != 0;
}

Json options_json(lua_State* lua, int index) {
  auto pointer = place(lua, index);
  const Json* node = pointer ? locate(Interpreter::of(lua).host().options().json(), *pointer) : nullptr;
  return node != nullptr ? *node : Json();
}

// ---- environment ------------------------------------------------------------------------
//
// getenv, setenv and unsetenv of Lua, over the environment of the job or of a task. `name` is that of the Lua
// function, for errors.

namespace {

int push_all(lua_State* lua, const job::Environment& env) {
  // Copied, since a finalizer, which may run at each push, may change the environment.
  std::vector<std::pair<std::string, std::string>> variables;
  for (const auto& [name, value] : env.all()) variables.emplace_back(name, value);
  lua_createtable(lua, 0, static_cast<int>(variables.size()));
  for (const auto& [name, value] : variables) {
    push_text(lua, name);
    push_text(lua, value);
    lua_rawset(lua, -3);
  }
  return 1;
}

// Whether `variable` matches the Lua pattern that is argument `index`.
Result<bool> matches(lua_State* lua, const std::string& variable, int index) {
  StackMark mark(lua);
  lua_getfield(lua, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(lua, -1, LUA_STRLIBNAME);
  lua_getfield(lua, -1, "find");
  push_text(lua, variable);
  lua_pushvalue(lua, index);
  if (lua_pcall(lua, 2, 1, 0) != LUA_OK) return invalid(std::string(text_at(lua, -1)));
  return lua_isnil(lua, -1) == 0;
}

}  // namespace

// (VAR): its value or nil; (): all as a table.
Result<int> get_variable(lua_State* lua, const job::Environment& env, std::string_view name) {
  Arguments arguments(lua, name);
  if (arguments.count() == 0) return push_all(lua, env);
  std::string_view variable = TRY(arguments.text(1, "name"));
  if (auto value = env.get(variable)) {
    push_text(lua, *value);
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

// (VAR, VALUE, [OVERWRITE]): a number is a value too. OVERWRITE false or 0 keeps a variable that is set. Gives
// true.
Result<int> set_variable(lua_State* lua, job::Environment& env, std::string_view name) {
  Arguments arguments(lua, name);
  std::string_view variable = TRY(arguments.text(1, "name"));
  std::string_view value = TRY(arguments.text(2, "value"));
  CHECK_OK(in(name, job::Environment::check(variable, value)));
  if (arguments.truth(3, true) || !env.get(variable)) env.set(variable, value);
  lua_pushboolean(lua, 1);
  return 1;
}

// (VAR). Gives true.
Result<int> unset_variable(lua_State* lua, job::Environment& env, std::string_view name) {
  std::string_view variable = TRY(Arguments(lua, name).text(1, "name"));
  env.unset(variable);
  lua_pushboolean(lua, 1);
  return 1;
}

// (VAR, PATH): puts PATH at the front of a list with colons.
Result<int> prepend_path(lua_State* lua, job::Environment& env, std::string_view name) {
  Arguments arguments(lua, name);
  std::string_view variable = TRY(arguments.text(1, "name"));
  std::string value = TRY(arguments.path(2, "path"));
  auto rest = env.get(variable);
  if (rest && !rest->empty()) value = fmt::format("{}:{}", value, *rest);
  CHECK_OK(in(name, job::Environment::check(variable, value)));
  env.set(variable, value);
  return 0;
}

// (PATTERN, ...): unsets all variables whose name matches one of these Lua patterns.
Result<int> strip_variables(lua_State* lua, job::Environment& env, std::string_view name) {
  Arguments arguments(lua, name);
  if (arguments.count() == 0) return arguments.expected(1, "pattern", "a string");
  std::vector<std::string> variables;
  for (const auto& [variable, value] : env.all()) variables.emplace_back(variable);
  std::vector<std::string> doomed;
  for (int index = 1; index <= arguments.count(); ++index) {
    TRY(arguments.text(index, "pattern"));
    for (const std::string& each : variables) {
      Result<bool> match = matches(lua, each, index);
      if (!match) return arguments.error(index, "pattern", match.error().message);
      if (*match) doomed.push_back(each);
    }
  }
  for (const std::string& each : doomed) env.unset(each);
  return 0;
}

// ---- shell table ------------------------------------------------------------------------

namespace {

constexpr char kInfoKey = 0;  // its address is the key of shell.info in the registry

// ---- facts -------------------------------------------------------------------

// Made once: the facts do not change, and a callback for each task may look at them.
Result<int> push_info(Interpreter& self, lua_State* lua) {
  if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &kInfoKey) == LUA_TTABLE) return 1;
  lua_pop(lua, 1);
  Json info = self.host().info();
  // Text, as flux-shell-initrc(5) has it. A larger one than Lua's integers would be a float, too.
  info["jobid"] = fmt::format("{}", self.host().job().id.value());
  CHECK_OK(in("shell.info", push_json(lua, info)));
  lua_pushvalue(lua, -1);
  lua_rawsetp(lua, LUA_REGISTRYINDEX, &kInfoKey);
  return 1;
}

// Resources go by two names in the field: {core, gpu} of R, and {cores, gpus}.
void name_twice(Json& resources, const char* one, const char* other) {
  if (resources.contains(one) && !resources.contains(other)) resources[other] = resources[one];
  if (resources.contains(other) && !resources.contains(one)) resources[one] = resources[other];
}

Result<int> push_rank_info(Interpreter& self, lua_State* lua, std::uint32_t rank) {
  Json info = TRY(in("shell.get_rankinfo", self.host().job().rank_info(rank)));
  Json& resources = info["resources"];
  // "" is true in Lua, and scripts ask `if resources.gpus then`.
  if (resources.value("gpus", "") == "") resources.erase("gpus");
  name_twice(resources, "core", "cores");
  name_twice(resources, "gpu", "gpus");
  CHECK_OK(push_json(lua, info));
  return 1;
}

Result<int> get_rankinfo(Interpreter& self, lua_State* lua) {
  Arguments arguments(lua, "shell.get_rankinfo");
  if (arguments.count() == 0 || lua_isnil(lua, 1)) return push_rank_info(self, lua, self.host().job().shell_rank);
  int is_integer = 0;
  lua_Integer rank = lua_tointegerx(lua, 1, &is_integer);
  if (is_integer == 0) return arguments.expected(1, "shell_rank", "an integer");
  std::uint32_t shells = self.host().job().shells();
  if (rank < 0 || rank >= lua_Integer{shells}) {
    return arguments.error(1, "shell_rank", fmt::format("expected 0 to {}, got {}", shells - 1, rank));
  }
  return push_rank_info(self, lua, static_cast<std::uint32_t>(rank));
}

// ---- the environment of the job ------------------------------------------------

Result<int> shell_getenv(Interpreter& self, lua_State* lua) {
  return get_variable(lua, self.host().environment(), "shell.getenv");
}

Result<int> shell_setenv(Interpreter& self, lua_State* lua) {
  return set_variable(lua, self.host().environment(), "shell.setenv");
}

Result<int> shell_unsetenv(Interpreter& self, lua_State* lua) {
  return unset_variable(lua, self.host().environment(), "shell.unsetenv");
}

Result<int> shell_prepend_path(Interpreter& self, lua_State* lua) {
  return prepend_path(lua, self.host().environment(), "shell.prepend_path");
}

Result<int> shell_env_strip(Interpreter& self, lua_State* lua) {
  return strip_variables(lua, self.host().environment(), "shell.env_strip");
}

// ---- the log -------------------------------------------------------------------

Result<int> post(Interpreter& self, lua_State* lua, std::string_view name, Level level) {
  std::string message(TRY(Arguments(lua, name).text(1, "message")));
  Log& log = self.host().log();
  if (!log.wants(level)) return 0;
  Place place = caller(lua);
  std::string_view rest = message;
  if (rest.ends_with('\n')) rest.remove_suffix(1);
  for (std::string_view line : split(rest, '\n')) {
    log.post({level, self.context().component, place.file, place.line, std::string(line)});
  }
  return 0;
}

Result<int> shell_log(Interpreter& self, lua_State* lua) { return post(self, lua, "shell.log", Level::notice); }
Result<int> shell_debug(Interpreter& self, lua_State* lua) { return post(self, lua, "shell.debug", Level::debug); }
Result<int> shell_log_error(Interpreter& self, lua_State* lua) {
  return post(self, lua, "shell.log_error", Level::error);
}

Result<int> shell_die(Interpreter& self, lua_State* lua) {
  return self.die(std::string(TRY(Arguments(lua, "shell.die").text(1, "message"))));
}

// ---- computed members ------------------------------------------------------------

Result<int> shell_index(Interpreter& self, lua_State* lua) {
  std::string_view key = lua_type(lua, 2) == LUA_TSTRING ? text_at(lua, 2) : "";
  if (key == "info") return push_info(self, lua);
  if (key == "rankinfo") return push_rank_info(self, lua, self.host().job().shell_rank);
  if (key == "options") {
    push_options(lua);
  } else if (key == "rcpath") {
    push_text(lua, self.context().rcpath);
  } else if (key == "verbose") {
    int level = verbosity(self.host().log());
    level > 0 ? lua_pushinteger(lua, level) : lua_pushboolean(lua, 0);  // to Lua 0 is true
  } else if (key == "null") {
    push_null(lua);
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> shell_assign(Interpreter& self, lua_State* lua) {
  std::string_view key = lua_type(lua, 2) == LUA_TSTRING ? text_at(lua, 2) : "";
  if (key == "verbose") {
    Json value = TRY(to_json(lua, 3, "shell.verbose"));
    CHECK_OK(set_verbosity(self.host(), value, "shell.verbose"));
    return 0;
  }
  for (std::string_view fixed : {"info", "rankinfo", "options", "rcpath", "null"}) {
    if (key == fixed) return Error{EPERM, fmt::format("shell.{} is read-only", key)};
  }
  return assign_member(lua, "shell");
}

}  // namespace

void add_shell_table(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {{"get_rankinfo", trampoline<get_rankinfo>},
                                            {"getenv", trampoline<shell_getenv>},
                                            {"setenv", trampoline<shell_setenv>},
                                            {"unsetenv", trampoline<shell_unsetenv>},
                                            {"prepend_path", trampoline<shell_prepend_path>},
                                            {"env_strip", trampoline<shell_env_strip>},
                                            {"log", trampoline<shell_log>},
                                            {"debug", trampoline<shell_debug>},
                                            {"log_error", trampoline<shell_log_error>},
                                            {"die", trampoline<shell_die>},
                                            {"shrink", trampoline<shrink>},
                                            {nullptr, nullptr}};
  push_virtual_table(lua, kFunctions, trampoline<shell_index>, trampoline<shell_assign>);
  add_source_functions(lua);
  lua_setglobal(lua, "shell");
}

// ---- task table -------------------------------------------------------------------------
//
// The Lua table `task`: the task that a task.* topic is about.

namespace {

Result<task::Task*> current_task(Interpreter& self, std::string_view name) {
  task::Task* task = self.host().current_task();
  if (task == nullptr) return Error{EPERM, fmt::format("{} can only be used in a task.* callback", name)};
  return task;
}

// The environment of a task can be read at any time, but changed only before it runs.
Result<task::Task*> startable_task(Interpreter& self, std::string_view name) {
  task::Task* task = TRY(current_task(self, name));
  if (task->state() != task::State::init) return Error{EPERM, fmt::format("{}: the task has started", name)};
  return task;
}

Result<int> task_getenv(Interpreter& self, lua_State* lua) {
  task::Task* task = TRY(current_task(self, "task.getenv"));
  return get_variable(lua, task->command().env, "task.getenv");
}

Result<int> task_setenv(Interpreter& self, lua_State* lua) {
  task::Task* task = TRY(startable_task(self, "task.setenv"));
  return set_variable(lua, task->command().env, "task.setenv");
}

Result<int> task_unsetenv(Interpreter& self, lua_State* lua) {
  task::Task* task = TRY(startable_task(self, "task.unsetenv"));
  return unset_variable(lua, task->command().env, "task.unsetenv");
}

// As nacre-shell-initrc(5) has it: an exit code of 128 + signal for a killed task.
Json info_of(const task::Task& task) {
  Json info = task.info();
  if (task.state() == task::State::exited) info["exitcode"] = task.status().job_code();
  return info;
}

Result<int> task_index(Interpreter& self, lua_State* lua) {
  if (lua_type(lua, 2) == LUA_TSTRING && text_at(lua, 2) == "info") {
    task::Task* task = TRY(current_task(self, "task.info"));
    CHECK_OK(push_json(lua, info_of(*task)));
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> task_assign(Interpreter&, lua_State* lua) {
  if (lua_type(lua, 2) == LUA_TSTRING && text_at(lua, 2) == "info") return Error{EPERM, "task.info is read-only"};
  return assign_member(lua, "task");
}

}  // namespace

void add_task_table(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {{"getenv", trampoline<task_getenv>},
                                            {"setenv", trampoline<task_setenv>},
                                            {"unsetenv", trampoline<task_unsetenv>},
                                            {nullptr, nullptr}};
  push_virtual_table(lua, kFunctions, trampoline<task_index>, trampoline<task_assign>);
  lua_setglobal(lua, "task");
}

// ---- plugin table -----------------------------------------------------------------------
//
// The Lua table `plugin`: load plugins, register some written in Lua.

namespace {

// Pushes table[name], without metamethods; its type.
int push_field(lua_State* lua, int table, std::string_view name) {
  table = lua_absindex(lua, table);
  push_text(lua, name);
  return lua_rawget(lua, table);
}

// The text field `name` of a table, none if it is nil. `where` names the field in errors.
Result<std::optional<std::string>> text_field(lua_State* lua, int table, std::string_view name,
                                              std::string_view where) {
  StackMark mark(lua);
  int type = push_field(lua, table, name);
  if (type == LUA_TNIL) return std::optional<std::string>();
  if (type != LUA_TSTRING) return invalid(fmt::format("{}: expected a string, got {}", where, describe(lua, -1)));
  std::string value(text_at(lua, -1));
  if (value.empty()) return invalid(fmt::format("{}: is empty", where));
  return std::optional(std::move(value));
}

Result<std::string> required(Result<std::optional<std::string>> field, std::string_view where) {
  std::optional<std::string> value = TRY(std::move(field));
  if (!value) return invalid(fmt::format("{}: expected a string, got nil", where));
  return *std::move(value);
}

// A misspelt key would else be ignored in silence.
Result<void> only_keys(lua_State* lua, int table, std::string_view where,
                       std::initializer_list<const char*> known) {
  StackMark mark(lua);
  table = lua_absindex(lua, table);
  lua_pushnil(lua);
  while (lua_next(lua, table) != 0) {
    lua_pop(lua, 1);
    std::string key = lua_type(lua, -1) == LUA_TSTRING ? in_quotes(text_at(lua, -1)) : describe(lua, -1);
    bool found = false;
    for (const char* each : known) found = found || key == in_quotes(each);
    if (!found) return invalid(fmt::format("{}: unknown key {}; known: {}", where, key, fmt::join(known, ", ")));
  }
  return {};
}

// ---- plugin.load -----------------------------------------------------------------

Result<int> load(Interpreter& self, lua_State* lua) {
  Arguments arguments(lua, "plugin.load");
  std::string file;
  Json conf;
  if (lua_type(lua, 1) == LUA_TSTRING) {
    file = TRY(arguments.path(1, "file"));
  } else {
    if (!lua_istable(lua, 1)) return arguments.expected(1, "spec", "a string or a table");
    CHECK_OK(only_keys(lua, 1, "plugin.load", {"file", "conf"}));
    file = TRY(required(text_field(lua, 1, "file", "plugin.load: file"), "plugin.load: file"));
    push_field(lua, 1, "conf");
    conf = TRY(to_json(lua, -1, "plugin.load: conf"));
    if (!conf.is_object() && !conf.is_null()) {
      return invalid("plugin.load: conf: expected a table with names as keys, got " +
                     (conf.is_array() ? std::string("an array") : describe(lua, -1)));
    }
  }
  auto loaded = in("plugin.load", capi::load(self.host(), file, conf));
  // Its code may be any errno, also those that have a meaning here.
  if (!loaded) return invalid(std::move(loaded).error().message);
  lua_pushinteger(lua, *loaded);
  return 1;
}

// ---- plugin.register ---------------------------------------------------------------

// The file that calls, in full; what Lua shows of it may be cut.
std::string calling_file(lua_State* lua) {
  lua_Debug frame{};
  if (lua_getstack(lua, 1, &frame) == 0) return "lua";
  lua_getinfo(lua, "S", &frame);
  return *frame.source == '@' ? frame.source + 1 : frame.short_src;
}

// A plugin without a name is known by the place that registers it.
std::string unnamed(Interpreter& self, lua_State* lua) {
  Place place = caller(lua);
  std::string name = fmt::format("{}:{}", place.file, place.line);
  std::string unique = name;
  for (int i = 2; self.host().stack().find(unique) != nullptr; ++i) unique = fmt::format("{}#{}", name, i);
  return unique;
}

// Topics of the handlers at `index`, whose functions are known to be functions then.
Result<std::vector<std::string>> check_handlers(lua_State* lua, int index) {
  std::vector<std::string> topics;
  auto count = static_cast<lua_Integer>(lua_rawlen(lua, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    StackMark mark(lua);
    std::string where = fmt::format("plugin.register: handlers[{}]", i);
    if (lua_rawgeti(lua, index, i) != LUA_TTABLE) {
      return invalid(fmt::format("{}: expected a table, got {}", where, describe(lua, -1)));
    }
    CHECK_OK(only_keys(lua, -1, where, {"topic", "fn"}));
    std::string topic_name = where + ".topic";
    topics.push_back(TRY(required(text_field(lua, -1, "topic", topic_name), topic_name)));
    if (push_field(lua, -1, "fn") != LUA_TFUNCTION) {
      return invalid(fmt::format("{}.fn: expected a function, got {}", where, describe(lua, -1)));
    }
  }
  if (topics.empty()) return invalid("plugin.register: handlers: is empty");
  return topics;
}

Result<int> register_plugin(Interpreter& self, lua_State* lua) {
  CHECK_OK(Arguments(lua, "plugin.register").table(1, "spec"));
  CHECK_OK(only_keys(lua, 1, "plugin.register", {"name", "handlers"}));
  auto name = TRY(text_field(lua, 1, "name", "plugin.register: name"));
  if (!name) name = unnamed(self, lua);
  if (push_field(lua, 1, "handlers") != LUA_TTABLE) {
    return invalid("plugin.register: handlers: expected a table, got " + describe(lua, -1));
  }
  int handlers = lua_gettop(lua);
  std::vector<std::string> topics = TRY(check_handlers(lua, handlers));
  auto plugin = std::make_unique<plugin::Plugin>(*name, calling_file(lua));
  lua_Integer index = 0;
  for (std::string& topic : topics) {
    StackMark mark(lua);
    lua_rawgeti(lua, handlers, ++index);
    push_field(lua, -1, "fn");
    const auto& handler = self.keep_handler(lua, {*name, self.context().rcpath});
    plugin->on(std::move(topic), [&self, &handler](plugin::Call& call) { return self.handle(handler, call); });
  }
  self.host().stack().push(std::move(plugin));
  return 0;
}

// ---- computed members --------------------------------------------------------------

bool is_searchpath(lua_State* lua) { return lua_type(lua, 2) == LUA_TSTRING && text_at(lua, 2) == "searchpath"; }

Result<int> plugin_index(Interpreter& self, lua_State* lua) {
  if (is_searchpath(lua)) {
    push_text(lua, self.host().plugin_searchpath());
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> plugin_assign(Interpreter& self, lua_State* lua) {
  if (!is_searchpath(lua)) return assign_member(lua, "plugin");
  if (lua_type(lua, 3) != LUA_TSTRING) {
    return invalid(fmt::format("plugin.searchpath: expected a string, got {}", describe(lua, 3)));
  }
  self.host().plugin_searchpath() = text_at(lua, 3);
  return 0;
}

}  // namespace

void add_plugin_table(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {
      {"load", trampoline<load>}, {"register", trampoline<register_plugin>}, {nullptr, nullptr}};
  push_virtual_table(lua, kFunctions, trampoline<plugin_index>, trampoline<plugin_assign>);
  lua_setglobal(lua, "plugin");
}

// ---- coprocess table --------------------------------------------------------------------
//
// The Lua table `coprocess`: programs that a user may have run beside the tasks by naming them.

namespace {

constexpr char kPlacesKey = 0;  // its address is the key in the registry of a table: where each name was defined

// What a job asks for by the option `name`: nothing, or the keys of the definition that it replaces.
Result<std::optional<Json>> wanted_keys(const job::Options& options, const std::string& name) {
  auto option = options.at(name);
  if (!option || option->json().is_null()) return std::optional<Json>();
  if (option->json().is_object()) return std::optional<Json>(option->json());
  Result<bool> enabled = options.flag(name);
  if (!enabled) return option->expected("true or false, or keys of the coprocess such as " + name + ".output");
  return *enabled ? std::optional<Json>(Json::object()) : std::nullopt;
}

// Keeps where `name` is defined; an error if it is already.
Result<void> define_once(lua_State* lua, const std::string& name) {
  StackMark mark(lua);
  if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &kPlacesKey) != LUA_TTABLE) {
    lua_newtable(lua);
    lua_pushvalue(lua, -1);
    lua_rawsetp(lua, LUA_REGISTRYINDEX, &kPlacesKey);
  }
  push_text(lua, name);
  if (lua_rawget(lua, -2) == LUA_TSTRING) {
    return invalid(fmt::format("'{}' is defined already, at {}", name, text_at(lua, -1)));
  }
  lua_pop(lua, 1);
  Place place = caller(lua);
  push_text(lua, name);
  push_text(lua, fmt::format("{}:{}", place.file, place.line));
  lua_rawset(lua, -3);
  return {};
}

// Into the option `coprocess`, where the job's own words about this coprocess win.
Result<void> merge(job::Options& options, const std::string& name, Json keys) {
  if (auto all = options.at("coprocess")) {
    auto own = TRY(all->find(name));
    if (own && !own->json().is_object()) return own->expected("an object");
    if (own) keys.update(own->json());
  }
  options.set("coprocess." + name, std::move(keys));
  return {};
}

Result<void> define_spec(Interpreter& self, lua_State* lua) {
  Json spec = TRY(to_json(lua, 1, "spec"));
  std::string name = TRY(TRY(JsonAt::root(spec, "spec").at("name")).string());
  CHECK_OK(in("spec.name", job::Coprocess::check_name(name)));
  spec.erase("name");
  TRY(job::Coprocess::read(name, JsonAt::root(spec, "spec")));
  job::Options& options = self.host().options();
  auto keys = TRY(wanted_keys(options, name));
  if (!keys) return {};
  CHECK_OK(define_once(lua, name));
  spec.update(*keys);
  TRY(job::Coprocess::read(name, JsonAt::root(spec, name)));
  return merge(options, name, std::move(spec));
}

Result<int> define(Interpreter& self, lua_State* lua) {
  constexpr std::string_view kName = "coprocess.define";
  CHECK_OK(Arguments(lua, kName).table(1, "spec"));
  CHECK_OK(in(kName, define_spec(self, lua)));
  return 0;
}

}  // namespace

void add_coprocess_table(lua_State* lua) {
  static constexpr luaL_Reg kFunctions[] = {{"define", trampoline<define>}, {nullptr, nullptr}};
  lua_newtable(lua);
  luaL_setfuncs(lua, kFunctions, 0);
  lua_setglobal(lua, "coprocess");
}

}  // namespace nacre::script
