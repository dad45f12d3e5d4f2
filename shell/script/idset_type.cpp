// SPDX-License-Identifier: Apache-2.0
//
// Idsets (RFC 22) of Lua: value::Idset, with the operators | & - == # .. and tostring.
#include <fmt/format.h>

#include "script/binding.hpp"
#include "script/userdata.hpp"
#include "script/value_types.hpp"

namespace nacre::script {
namespace {

using value::Idset;

struct IdsetType {
  using value_type = Idset;
  static constexpr const char* kName = "nacre.idset";
  static const luaL_Reg kMethods[];
  static const luaL_Reg kOperators[];
};

std::optional<Idset::Id> id_at(lua_State* lua, int index) {
  int is_integer = 0;
  lua_Integer number = lua_type(lua, index) == LUA_TNUMBER ? lua_tointegerx(lua, index, &is_integer) : 0;
  if (is_integer == 0 || number < 0 || number > lua_Integer{Idset::kMaxId}) return std::nullopt;
  return static_cast<Idset::Id>(number);
}

Result<Idset> set_of_array(lua_State* lua, const Arguments& arguments, int index) {
  std::vector<Idset::Id> ids;
  auto count = static_cast<lua_Integer>(lua_rawlen(lua, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    StackMark mark(lua);
    lua_rawgeti(lua, index, i);
    auto id = id_at(lua, -1);
    if (!id)
      return arguments.error(index, "ids", fmt::format("[{}]: expected an id, got {}", i, describe(lua, -1)));
    ids.push_back(*id);
  }
  return Idset::of(ids);
}

// What every operator takes: an idset, or what one can be made of.
Result<Idset> set_at(lua_State* lua, const Arguments& arguments, int index) {
  if (const Idset* set = userdata_at<IdsetType>(lua, index)) return *set;
  if (auto id = id_at(lua, index)) return Idset::range(*id, *id);
  if (lua_istable(lua, index)) return set_of_array(lua, arguments, index);
  if (lua_type(lua, index) != LUA_TSTRING)
    return arguments.expected(index, "ids", "an idset, text such as \"0-3,7\", an id or an array of ids");
  auto parsed = Idset::parse(text_at(lua, index));
  if (!parsed) return arguments.error(index, "ids", parsed.error().message);
  return parsed;
}

Result<const Idset*> self_at(lua_State* lua, const Arguments& arguments) {
  if (const Idset* set = userdata_at<IdsetType>(lua, 1)) return set;
  return arguments.expected(1, "self", "an idset (is it called with a colon?)");
}

Result<int> push_id(lua_State* lua, std::optional<Idset::Id> id) {
  if (id) {
    lua_pushinteger(lua, *id);
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> idset_has(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "idset:has");
  const Idset* set = TRY(self_at(lua, arguments));
  if (lua_type(lua, 2) != LUA_TNUMBER) return arguments.expected(2, "id", "an id");
  auto id = id_at(lua, 2);
  lua_pushboolean(lua, id && set->contains(*id));
  return 1;
}

Result<int> idset_first(Interpreter&, lua_State* lua) {
  return push_id(lua, TRY(self_at(lua, Arguments(lua, "idset:first")))->first());
}

Result<int> idset_last(Interpreter&, lua_State* lua) {
  return push_id(lua, TRY(self_at(lua, Arguments(lua, "idset:last")))->last());
}

// What a generic `for` calls: (set, id before) gives the next one.
Result<int> idset_next(Interpreter&, lua_State* lua) {
  const Idset* set = TRY(self_at(lua, Arguments(lua, "idset:each")));
  auto before = id_at(lua, 2);
  return push_id(lua, before ? set->next(*before) : set->first());
}

Result<int> idset_each(Interpreter&, lua_State* lua) {
  TRY(self_at(lua, Arguments(lua, "idset:each")));
  lua_pushcfunction(lua, trampoline<idset_next>);
  lua_pushvalue(lua, 1);
  lua_pushnil(lua);
  return 3;
}

Result<int> idset_ids(Interpreter&, lua_State* lua) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 20;
  Arguments arguments(lua, "idset:ids");
  const Idset* set = TRY(self_at(lua, arguments));
  if (set->size() > kMost)
    return arguments.error(1, "self", fmt::format("has {} ids, more than {}: use each()", set->size(), kMost));
  lua_createtable(lua, static_cast<int>(set->size()), 0);
  lua_Integer index = 0;
  for (Idset::Id id : set->ids()) {
    lua_pushinteger(lua, id);
    lua_rawseti(lua, -2, ++index);
  }
  return 1;
}

template <typename Operation>
Result<int> combine(lua_State* lua, std::string_view sign, Operation operation) {
  Arguments arguments(lua, sign);
  Idset left = TRY(set_at(lua, arguments, 1));
  Idset right = TRY(set_at(lua, arguments, 2));
  return push_idset(lua, operation(left, right));
}

Result<int> idset_or(Interpreter&, lua_State* lua) {
  return combine(lua, "idset | idset", [](const Idset& a, const Idset& b) { return a | b; });
}

Result<int> idset_and(Interpreter&, lua_State* lua) {
  return combine(lua, "idset & idset", [](const Idset& a, const Idset& b) { return a & b; });
}

Result<int> idset_minus(Interpreter&, lua_State* lua) {
  return combine(lua, "idset - idset", [](const Idset& a, const Idset& b) { return a - b; });
}

Result<int> idset_equals(Interpreter&, lua_State* lua) {
  const Idset* left = userdata_at<IdsetType>(lua, 1);
  const Idset* right = userdata_at<IdsetType>(lua, 2);
  lua_pushboolean(lua, left != nullptr && right != nullptr && *left == *right);
  return 1;
}

Result<int> idset_size(Interpreter&, lua_State* lua) {
  lua_pushinteger(lua, static_cast<lua_Integer>(TRY(self_at(lua, Arguments(lua, "#idset")))->size()));
  return 1;
}

Result<int> idset_text(Interpreter&, lua_State* lua) {
  push_text(lua, TRY(self_at(lua, Arguments(lua, "tostring")))->str());
  return 1;
}

Result<int> idset_concat(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "idset .. text");
  std::string out;
  for (int index : {1, 2}) {
    const Idset* set = userdata_at<IdsetType>(lua, index);
    out += set != nullptr ? set->str() : std::string(TRY(arguments.text(index, "text")));
  }
  push_text(lua, out);
  return 1;
}

constexpr luaL_Reg kNoMore{nullptr, nullptr};

}  // namespace

const luaL_Reg IdsetType::kMethods[] = {{"has", trampoline<idset_has>},   {"first", trampoline<idset_first>},
                                        {"last", trampoline<idset_last>}, {"each", trampoline<idset_each>},
                                        {"ids", trampoline<idset_ids>},   kNoMore};
const luaL_Reg IdsetType::kOperators[] = {
    {"__bor", trampoline<idset_or>},        {"__band", trampoline<idset_and>},
    {"__sub", trampoline<idset_minus>},     {"__eq", trampoline<idset_equals>},
    {"__len", trampoline<idset_size>},      {"__tostring", trampoline<idset_text>},
    {"__concat", trampoline<idset_concat>}, kNoMore};

void add_idset_type(lua_State* lua) { add_userdata_type<IdsetType>(lua); }

int push_idset(lua_State* lua, value::Idset set) { return push_userdata<IdsetType>(lua, std::move(set)); }

Result<int> make_idset(Interpreter&, lua_State* lua) {
  return push_idset(lua, TRY(set_at(lua, Arguments(lua, "nacre.idset"), 1)));
}

}  // namespace nacre::script
