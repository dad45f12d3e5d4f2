// SPDX-License-Identifier: Apache-2.0
#include "script/options.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "script/binding.hpp"
#include "script/json.hpp"

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

}  // namespace nacre::script
