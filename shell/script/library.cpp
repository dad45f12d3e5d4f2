// SPDX-License-Identifier: Apache-2.0
//
// require "nacre": the library of nacre-lua(3). Its Lua files are in one directory, which needs no LUA_PATH; what
// they take of C++ is the module nacre.native. Nothing of it is looked for, or made, before it is required.
#include <glob.h>
#include <libgen.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include <lua.hpp>

#include "base/file.hpp"
#include "base/owned_directory.hpp"
#include "base/text.hpp"
#include "exits/record.hpp"
#include "job/options.hpp"
#include "script/binding.hpp"
#include "script/interpreter.hpp"
#include "script/json.hpp"
#include "task/command.hpp"

namespace nacre::script {
namespace {

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

// Makes it of text, an array of texts, or a hostlist.
Result<int> make_hostlist(Interpreter&, lua_State* lua) {
  return push_hosts(lua, TRY(hosts_at(lua, Arguments(lua, "nacre.hostlist"), 1)));
}

// ---- idset type -------------------------------------------------------------------------
//
// Idsets (RFC 22) of Lua: value::Idset, with the operators | & - == # .. and tostring.

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

int push_idset(lua_State* lua, value::Idset set);

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

// Makes it of text, an id, an array of ids, or an idset.
Result<int> make_idset(Interpreter&, lua_State* lua) {
  return push_idset(lua, TRY(set_at(lua, Arguments(lua, "nacre.idset"), 1)));
}

// ---- scratch type -----------------------------------------------------------------------
//
// Directories for the time of a job, and what room file systems have, for Lua.

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

// Before those that look into LUA_PATH: what is there may be of another version.
void add_searcher(lua_State* lua, lua_CFunction searcher) {
  constexpr lua_Integer kAfterPreload = 2;
  lua_getglobal(lua, "package");
  lua_getfield(lua, -1, "searchers");
  for (auto i = static_cast<lua_Integer>(lua_rawlen(lua, -1)); i >= kAfterPreload; --i) {
    lua_rawgeti(lua, -1, i);
    lua_rawseti(lua, -2, i + 1);
  }
  lua_pushcfunction(lua, searcher);
  lua_rawseti(lua, -2, kAfterPreload);
  lua_pop(lua, 2);
}

}  // namespace

void add_library(lua_State* lua) { add_searcher(lua, trampoline<search_library>); }

// ---- posix module -----------------------------------------------------------------------
//
// A module `posix` of three functions, basename, dirname and setrlimit (of this process, and so of tasks to come),
// for initrc files that need no more of lua-posix, as those of Flux. Debian has no lua-posix for Lua 5.4; where one
// is installed it is taken. What LUA_PATH and LUA_CPATH have may be another Lua's, as an instance of Flux sets them
// for its own: then it cannot be loaded.

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

int search(lua_State* lua);

// Loads lua-posix, if one of the other searchers has one that can be loaded; else this module.
int open_installed(lua_State* lua) {
  constexpr int kSearchers = 3;
  lua_settop(lua, 1);  // the name
  lua_getglobal(lua, "package");
  lua_getfield(lua, -1, "searchers");
  for (lua_Integer i = 1; i <= static_cast<lua_Integer>(lua_rawlen(lua, kSearchers)); ++i) {
    lua_settop(lua, kSearchers);
    lua_rawgeti(lua, kSearchers, i);
    if (lua_tocfunction(lua, -1) == search) continue;
    lua_pushvalue(lua, 1);
    if (lua_pcall(lua, 1, 2, 0) != LUA_OK || !lua_isfunction(lua, -2)) continue;
    lua_pushvalue(lua, 1);
    lua_insert(lua, -2);
    if (lua_pcall(lua, 2, 1, 0) == LUA_OK) return 1;
  }
  return open_module(lua);
}

// As package.searchers has them: the loader and where it is from, or why there is none.
int search(lua_State* lua) {
  if (lua_type(lua, 1) != LUA_TSTRING || text_at(lua, 1) != kPosix) return 0;
  lua_pushcfunction(lua, open_installed);
  lua_pushliteral(lua, ":nacre:");
  return 2;
}

}  // namespace

void add_posix_module(lua_State* lua) { add_searcher(lua, search); }

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
