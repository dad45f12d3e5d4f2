// SPDX-License-Identifier: Apache-2.0
#include "script/value_types.hpp"

#include <sys/statvfs.h>

#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <lua.hpp>

#include "base/file.hpp"
#include "base/owned_directory.hpp"
#include "script/binding.hpp"

namespace nacre::script {

// ---- userdata ---------------------------------------------------------------------------
//
// Values of C++ as full userdata of Lua, with methods and operators. A value does not change once Lua has it.

// `Type` has value_type, kName (of the metatable; what messages call it) and kMethods, kOperators (luaL_Reg).
template <typename Type>
void add_userdata_type(lua_State* lua) {
  using Value = typename Type::value_type;
  if (luaL_newmetatable(lua, Type::kName) != 0) {
    luaL_setfuncs(lua, Type::kOperators, 0);
    lua_newtable(lua);
    luaL_setfuncs(lua, Type::kMethods, 0);
    lua_setfield(lua, -2, "__index");
    // No trampoline: it runs when the state is closed, too.
    lua_pushcfunction(lua, [](lua_State* state) {
      std::destroy_at(static_cast<Value*>(lua_touserdata(state, 1)));
      return 0;
    });
    lua_setfield(lua, -2, "__gc");
    lua_pushliteral(lua, "locked");  // so that no Lua code gets at __gc
    lua_setfield(lua, -2, "__metatable");
  }
  lua_pop(lua, 1);
}

template <typename Type>
int push_userdata(lua_State* lua, typename Type::value_type value) {
  using Value = typename Type::value_type;
  static_assert(alignof(Value) <= alignof(std::max_align_t));
  void* place = lua_newuserdatauv(lua, sizeof(Value), 0);
  new (place) Value(std::move(value));
  luaL_setmetatable(lua, Type::kName);
  return 1;
}

// Null if the value at `index` is none of the type. Valid while it is on the stack.
template <typename Type>
const typename Type::value_type* userdata_at(lua_State* lua, int index) {
  return static_cast<const typename Type::value_type*>(luaL_testudata(lua, index, Type::kName));
}

// ---- hostlist type ----------------------------------------------------------------------
//
// Hostlists (RFC 29) of Lua: value::Hostlist, with the operators + - == # .. and tostring. Positions count from 0,
// as ranks do.

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

// ---- idset type -------------------------------------------------------------------------
//
// Idsets (RFC 22) of Lua: value::Idset, with the operators | & - == # .. and tostring.

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

// ---- scratch type -----------------------------------------------------------------------
//
// Directories for the time of a job, and what room file systems have, for Lua.

namespace {

struct ScratchType {
  using value_type = OwnedDirectory;
  static constexpr const char* kName = "nacre.scratch";
  static const luaL_Reg kMethods[];
  static const luaL_Reg kOperators[];
};

Result<const OwnedDirectory*> scratch_at(lua_State* lua, std::string_view name) {
  if (const OwnedDirectory* directory = userdata_at<ScratchType>(lua, 1)) return directory;
  return Arguments(lua, name).expected(1, "self", "a scratch directory (is it called with a colon?)");
}

Result<int> scratch_path(Interpreter&, lua_State* lua) {
  push_text(lua, TRY(scratch_at(lua, "scratch:path"))->path());
  return 1;
}

Result<int> scratch_remove(Interpreter&, lua_State* lua) {
  const OwnedDirectory* directory = TRY(scratch_at(lua, "scratch:remove"));
  CHECK_OK(in(directory->path(), remove_tree(directory->path())));
  return 0;
}

constexpr luaL_Reg kLastOfScratch{nullptr, nullptr};

}  // namespace

const luaL_Reg ScratchType::kMethods[] = {
    {"path", trampoline<scratch_path>}, {"remove", trampoline<scratch_remove>}, kLastOfScratch};
const luaL_Reg ScratchType::kOperators[] = {{"__tostring", trampoline<scratch_path>}, kLastOfScratch};

void add_scratch_type(lua_State* lua) { add_userdata_type<ScratchType>(lua); }

// (PARENT): a directory there that is this shell's, once what shells that are gone have left there is removed.
Result<int> make_scratch(Interpreter& self, lua_State* lua) {
  std::string parent = TRY(Arguments(lua, "nacre.scratch").path(1, "parent"));
  auto made = OwnedDirectory::create(parent, fmt::format("-scratch-{}", self.host().job().shell_rank));
  if (!made) return Error{made.error().code, fmt::format("nacre.scratch: {}", made.error().message)};
  LeftDirectories left = TRY(in("nacre.scratch", LeftDirectories::in(parent, {}, &*made)));
  while (left.look()) {
  }
  for (const OwnedDirectory& each : left.found()) {
    if (Result<void> removed = remove_tree(each.path()); !removed)
      self.host().log().log(Level::warn, self.context().component, "{}, which a job has left: {}", each.path(),
                            removed.error().message);
  }
  return push_userdata<ScratchType>(lua, *std::move(made));
}

// (PATH): {free, total, readonly} of its file system, bytes that may be used.
Result<int> space_of(Interpreter&, lua_State* lua) {
  std::string path = TRY(Arguments(lua, "nacre.space").path(1, "path"));
  struct statvfs room {};
  if (::statvfs(path.c_str(), &room) != 0) return in("nacre.space", system_error(errno, path));
  lua_createtable(lua, 0, 3);
  lua_pushinteger(lua, static_cast<lua_Integer>(room.f_bavail * room.f_frsize));
  lua_setfield(lua, -2, "free");
  lua_pushinteger(lua, static_cast<lua_Integer>(room.f_blocks * room.f_frsize));
  lua_setfield(lua, -2, "total");
  lua_pushboolean(lua, (room.f_flag & ST_RDONLY) != 0);
  lua_setfield(lua, -2, "readonly");
  return 1;
}

}  // namespace nacre::script
