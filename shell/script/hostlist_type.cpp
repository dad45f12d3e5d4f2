// SPDX-License-Identifier: Apache-2.0
//
// Hostlists (RFC 29) of Lua: value::Hostlist, with the operators + - == # .. and tostring. Positions count from 0,
// as ranks do.
#include <fmt/format.h>

#include "script/binding.hpp"
#include "script/userdata.hpp"
#include "script/value_types.hpp"

namespace nacre::script {
namespace {

using value::Hostlist;

struct HostlistType {
  using value_type = Hostlist;
  static constexpr const char* kName = "nacre.hostlist";
  static const luaL_Reg kMethods[];
  static const luaL_Reg kOperators[];
};

Result<Hostlist> parsed_hosts(const Arguments& arguments, int index, std::string_view text) {
  auto parsed = Hostlist::parse(text);
  if (!parsed) return arguments.error(index, "hosts", parsed.error().message);
  return parsed;
}

// A hostlist, or what one can be made of.
Result<Hostlist> hosts_at(lua_State* lua, const Arguments& arguments, int index) {
  if (const Hostlist* hosts = userdata_at<HostlistType>(lua, index)) return *hosts;
  if (lua_type(lua, index) == LUA_TSTRING) return parsed_hosts(arguments, index, text_at(lua, index));
  if (!lua_istable(lua, index))
    return arguments.expected(index, "hosts", "a hostlist, text such as \"n[0-3]\", or an array of texts");
  Hostlist out;
  auto count = static_cast<lua_Integer>(lua_rawlen(lua, index));
  for (lua_Integer i = 1; i <= count; ++i) {
    StackMark mark(lua);
    if (lua_rawgeti(lua, index, i) != LUA_TSTRING)
      return arguments.error(index, "hosts", fmt::format("[{}]: expected a name, got {}", i, describe(lua, -1)));
    out.append(TRY(parsed_hosts(arguments, index, text_at(lua, -1))));
  }
  return out;
}

Result<const Hostlist*> list_at(lua_State* lua, const Arguments& arguments) {
  if (const Hostlist* hosts = userdata_at<HostlistType>(lua, 1)) return hosts;
  return arguments.expected(1, "self", "a hostlist (is it called with a colon?)");
}

int push_hosts(lua_State* lua, Hostlist hosts) { return push_userdata<HostlistType>(lua, std::move(hosts)); }

Result<lua_Integer> position_at(lua_State* lua, const Arguments& arguments, int index, std::string_view what) {
  int is_integer = 0;
  lua_Integer position = lua_type(lua, index) == LUA_TNUMBER ? lua_tointegerx(lua, index, &is_integer) : 0;
  if (is_integer == 0 || position < 0) return arguments.expected(index, what, "an integer from 0 on");
  return position;
}

Result<int> hostlist_host(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "hostlist:host");
  const Hostlist* hosts = TRY(list_at(lua, arguments));
  auto name = hosts->nth(static_cast<std::uint64_t>(TRY(position_at(lua, arguments, 2, "position"))));
  if (name) {
    push_text(lua, *name);
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> hostlist_find(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "hostlist:find");
  const Hostlist* hosts = TRY(list_at(lua, arguments));
  if (auto position = hosts->find(TRY(arguments.text(2, "name")))) {
    lua_pushinteger(lua, static_cast<lua_Integer>(*position));
  } else {
    lua_pushnil(lua);
  }
  return 1;
}

Result<int> hostlist_names(Interpreter&, lua_State* lua) {
  const Hostlist* hosts = TRY(list_at(lua, Arguments(lua, "hostlist:names")));
  lua_createtable(lua, static_cast<int>(hosts->size()), 0);
  lua_Integer index = 0;
  for (const std::string& name : hosts->names()) {
    push_text(lua, name);
    lua_rawseti(lua, -2, ++index);
  }
  return 1;
}

Result<int> hostlist_part(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "hostlist:part");
  const Hostlist* hosts = TRY(list_at(lua, arguments));
  lua_Integer from = TRY(position_at(lua, arguments, 2, "from"));
  lua_Integer length = TRY(position_at(lua, arguments, 3, "length"));
  return push_hosts(lua, hosts->part(static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(length)));
}

// Sorted, each name once.
Result<int> hostlist_sorted(Interpreter&, lua_State* lua) {
  Hostlist hosts = *TRY(list_at(lua, Arguments(lua, "hostlist:sorted")));
  hosts.uniq();
  return push_hosts(lua, std::move(hosts));
}

Result<int> hostlist_plus(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "hostlist + hostlist");
  Hostlist hosts = TRY(hosts_at(lua, arguments, 1));
  hosts.append(TRY(hosts_at(lua, arguments, 2)));
  return push_hosts(lua, std::move(hosts));
}

Result<int> hostlist_minus(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "hostlist - hostlist");
  Hostlist hosts = TRY(hosts_at(lua, arguments, 1));
  hosts.remove(TRY(hosts_at(lua, arguments, 2)));
  return push_hosts(lua, std::move(hosts));
}

Result<int> hostlist_equals(Interpreter&, lua_State* lua) {
  const Hostlist* left = userdata_at<HostlistType>(lua, 1);
  const Hostlist* right = userdata_at<HostlistType>(lua, 2);
  lua_pushboolean(lua, left != nullptr && right != nullptr && *left == *right);
  return 1;
}

Result<int> hostlist_size(Interpreter&, lua_State* lua) {
  lua_pushinteger(lua, static_cast<lua_Integer>(TRY(list_at(lua, Arguments(lua, "#hostlist")))->size()));
  return 1;
}

Result<int> hostlist_text(Interpreter&, lua_State* lua) {
  push_text(lua, TRY(list_at(lua, Arguments(lua, "tostring")))->str());
  return 1;
}

Result<int> hostlist_concat(Interpreter&, lua_State* lua) {
  Arguments arguments(lua, "hostlist .. text");
  std::string out;
  for (int index : {1, 2}) {
    const Hostlist* hosts = userdata_at<HostlistType>(lua, index);
    out += hosts != nullptr ? hosts->str() : std::string(TRY(arguments.text(index, "text")));
  }
  push_text(lua, out);
  return 1;
}

constexpr luaL_Reg kNoOther{nullptr, nullptr};

}  // namespace

const luaL_Reg HostlistType::kMethods[] = {
    {"host", trampoline<hostlist_host>},     {"find", trampoline<hostlist_find>},
    {"names", trampoline<hostlist_names>},   {"part", trampoline<hostlist_part>},
    {"sorted", trampoline<hostlist_sorted>}, kNoOther};
const luaL_Reg HostlistType::kOperators[] = {{"__add", trampoline<hostlist_plus>},
                                             {"__sub", trampoline<hostlist_minus>},
                                             {"__eq", trampoline<hostlist_equals>},
                                             {"__len", trampoline<hostlist_size>},
                                             {"__tostring", trampoline<hostlist_text>},
                                             {"__concat", trampoline<hostlist_concat>},
                                             kNoOther};

void add_hostlist_type(lua_State* lua) { add_userdata_type<HostlistType>(lua); }

Result<int> make_hostlist(Interpreter&, lua_State* lua) {
  return push_hosts(lua, TRY(hosts_at(lua, Arguments(lua, "nacre.hostlist"), 1)));
}

}  // namespace nacre::script
