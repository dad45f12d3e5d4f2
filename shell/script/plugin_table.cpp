// SPDX-License-Identifier: Apache-2.0
//
// The Lua table `plugin`: load plugins, register some written in Lua.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.hpp"
#include "capi/loader.hpp"
#include "script/binding.hpp"
#include "script/json.hpp"

namespace nacre::script {
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

}  // namespace nacre::script
