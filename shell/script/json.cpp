// SPDX-License-Identifier: Apache-2.0
#include "script/json.hpp"

#include "script/binding.hpp"

namespace nacre::script {
namespace {

Result<void> push_at(lua_State* lua, const Json& value, int depth);

Result<void> push_array(lua_State* lua, const Json& array, int depth) {
  lua_createtable(lua, static_cast<int>(array.size()), 0);
  luaL_setmetatable(lua, kArrayType);
  lua_Integer index = 0;
  for (const Json& each : array) {
    if (each.is_null()) {
      push_null(lua);
    } else {
      CHECK_OK(push_at(lua, each, depth));
    }
    lua_rawseti(lua, -2, ++index);
  }
  return {};
}

Result<void> push_object(lua_State* lua, const Json& object, int depth) {
  lua_createtable(lua, 0, static_cast<int>(object.size()));
  for (const auto& [key, each] : object.items()) {
    push_text(lua, key);
    CHECK_OK(push_at(lua, each, depth));
    lua_rawset(lua, -3);
  }
  return {};
}

void push_number(lua_State* lua, const Json& value) {
  bool beyond = value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<lua_Integer>::max();
  if (value.is_number_float() || beyond) {
    lua_pushnumber(lua, value.get<double>());
  } else {
    lua_pushinteger(lua, value.get<lua_Integer>());
  }
}

Result<void> push_at(lua_State* lua, const Json& value, int depth) {
  if (depth > kMaxDepthToLua || lua_checkstack(lua, 4) == 0) {
    return invalid(fmt::format("nested deeper than {} levels", kMaxDepthToLua));
  }
  if (value.is_object()) return push_object(lua, value, depth + 1);
  if (value.is_array()) return push_array(lua, value, depth + 1);
  if (value.is_string()) {
    push_text(lua, value.get_ref<const std::string&>());
  } else if (value.is_boolean()) {
    lua_pushboolean(lua, value.get<bool>() ? 1 : 0);
  } else if (value.is_number()) {
    push_number(lua, value);
  } else {
    lua_pushnil(lua);
  }
  return {};
}

// Reads one value with all below it, and knows where it is.
class Reader {
 public:
  Reader(lua_State* lua, std::string_view where) : lua_(lua), path_(where) {}

  Result<Json> value(int index, int depth) {
    if (depth > kMaxJsonDepth || lua_checkstack(lua_, 4) == 0) {
      return error(fmt::format("nested deeper than {} levels (does a table contain itself?)", kMaxJsonDepth));
    }
    if (++values_ > kMaxLuaValues) return error(fmt::format("more than {} values", kMaxLuaValues));
    switch (lua_type(lua_, index)) {
      case LUA_TNIL: return Json(nullptr);
      case LUA_TBOOLEAN: return Json(lua_toboolean(lua_, index) != 0);
      case LUA_TNUMBER: return number(index);
      case LUA_TSTRING: return Json(std::string(text_at(lua_, index)));
      case LUA_TTABLE: return table(lua_absindex(lua_, index), depth);
      case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(lua_, index) == nullptr) return Json(nullptr);
        [[fallthrough]];
      default: return error(fmt::format("{} has no form in JSON", describe(lua_, index)));
    }
  }

 private:
  // What the keys of a table are.
  struct Shape {
    lua_Integer integers = 0;
    lua_Integer highest = 0;
    bool strings = false;
  };

  Result<Json> number(int index) {
    if (lua_isinteger(lua_, index) != 0) return Json(lua_tointeger(lua_, index));
    double number = lua_tonumber(lua_, index);
    if (!std::isfinite(number)) return error(fmt::format("the number {} has no form in JSON", number));
    return Json(number);
  }

  Result<Json> table(int index, int depth) {
    if (is_options(lua_, index)) return options_json(lua_, index);
    Shape keys = TRY(shape(index));
    if (keys.integers == 0 && (keys.strings || !is_marked_array(index))) return object(index, depth + 1);
    if (keys.strings) return error("a table has both string keys and elements 1..n");
    if (keys.highest != keys.integers) {
      return error(
          fmt::format("an array has holes: {} elements, the last at index {}", keys.integers, keys.highest));
    }
    return array(index, keys.integers, depth + 1);
  }

  Result<Shape> shape(int index) {
    StackMark mark(lua_);
    Shape keys;
    lua_pushnil(lua_);
    while (lua_next(lua_, index) != 0) {
      lua_pop(lua_, 1);
      if (lua_isinteger(lua_, -1) != 0 && lua_tointeger(lua_, -1) > 0) {
        ++keys.integers;
        keys.highest = std::max(keys.highest, lua_tointeger(lua_, -1));
      } else if (lua_type(lua_, -1) == LUA_TSTRING) {
        keys.strings = true;
      } else if (lua_type(lua_, -1) == LUA_TNUMBER) {
        return error(fmt::format("a key must be a string or 1..n, got {}", lua_tonumber(lua_, -1)));
      } else {
        return error(fmt::format("a key must be a string or 1..n, got {}", describe(lua_, -1)));
      }
    }
    return keys;
  }

  Result<Json> array(int index, lua_Integer size, int depth) {
    Json result = Json::array();
    std::size_t parent = path_.size();
    for (lua_Integer i = 1; i <= size; ++i) {
      StackMark mark(lua_);
      lua_rawgeti(lua_, index, i);
      path_ += fmt::format("[{}]", i);
      result.push_back(TRY(value(-1, depth)));
      path_.resize(parent);
    }
    return result;
  }

  Result<Json> object(int index, int depth) {
    StackMark mark(lua_);
    Json result = Json::object();
    std::size_t parent = path_.size();
    lua_pushnil(lua_);
    while (lua_next(lua_, index) != 0) {
      std::string key(text_at(lua_, -2));
      path_ += '.';
      path_ += key;
      result[std::move(key)] = TRY(value(-1, depth));
      path_.resize(parent);
      lua_pop(lua_, 1);
    }
    return result;
  }

  [[nodiscard]] bool is_marked_array(int index) {
    StackMark mark(lua_);
    if (lua_getmetatable(lua_, index) == 0) return false;
    luaL_getmetatable(lua_, kArrayType);
    return lua_rawequal(lua_, -1, -2) != 0;
  }

  [[nodiscard]] Error error(std::string_view why) const { return invalid(fmt::format("{}: {}", path_, why)); }

  lua_State* lua_;
  std::string path_;
  std::size_t values_ = 0;
};

}  // namespace

void add_array_type(lua_State* lua) {
  luaL_newmetatable(lua, kArrayType);
  lua_pop(lua, 1);
}

void push_null(lua_State* lua) { lua_pushlightuserdata(lua, nullptr); }

Result<void> push_json(lua_State* lua, const Json& value) {
  int top = lua_gettop(lua);
  Result<void> pushed = push_at(lua, value, 0);
  if (!pushed) lua_settop(lua, top);
  return pushed;
}

Result<Json> to_json(lua_State* lua, int index, std::string_view where) {
  StackMark mark(lua);
  return Reader(lua, where).value(index, 0);
}

}  // namespace nacre::script
