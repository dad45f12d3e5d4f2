// SPDX-License-Identifier: Apache-2.0
//
// The Lua table `coprocess`: programs that a user may have run beside the tasks by naming them.
#include "job/coprocess.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "script/binding.hpp"
#include "script/json.hpp"

namespace nacre::script {
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
