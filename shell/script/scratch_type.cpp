// SPDX-License-Identifier: Apache-2.0
//
// Directories for the time of a job, and what room file systems have, for Lua.
#include <sys/statvfs.h>

#include <fmt/format.h>

#include "base/owned_directory.hpp"
#include "base/remove_tree.hpp"
#include "script/binding.hpp"
#include "script/userdata.hpp"
#include "script/value_types.hpp"

namespace nacre::script {
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
