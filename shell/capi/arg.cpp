// SPDX-License-Identifier: Apache-2.0
//
// <flux/plugin.h>: the arguments of a call.
#include <utility>

#include "base/json.hpp"
#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr int kAllArgFlags = FLUX_PLUGIN_ARG_OUT | FLUX_PLUGIN_ARG_REPLACE;

int index_of(int flags) { return flags & FLUX_PLUGIN_ARG_OUT; }

// 0, or -1 with errno.
int check(flux_plugin_arg* args, int flags) {
  if (args == nullptr) return fail(EINVAL);
  if ((flags & ~kAllArgFlags) != 0) return args->fail(EINVAL, "unknown flags");
  return 0;
}

int store(flux_plugin_arg* args, int flags, JsonRef value) {
  if (!json_is_object(value.get())) return args->fail(EINVAL, "expected an object");
  if ((flags & FLUX_PLUGIN_ARG_REPLACE) != 0) {
    args->replace(flags, std::move(value));
  } else {
    json_object_update(args->side(flags), value.get());
  }
  args->written[index_of(flags)] = true;
  return 0;
}

}  // namespace

json_t* flux_plugin_arg::side(int flags) {
  JsonRef& wanted = sides[index_of(flags)];
  if (!wanted) wanted = call != nullptr ? to_jansson(member(*call, flags)) : JsonRef(json_object());
  return wanted.get();
}

void flux_plugin_arg::replace(int flags, JsonRef value) {
  if (JsonRef previous = std::exchange(sides[index_of(flags)], std::move(value)))
    older.push_back(std::move(previous));
}

Json& flux_plugin_arg::member(Call& of, int flags) const {
  return index_of(flags) == FLUX_PLUGIN_ARG_IN ? of.in : of.out;
}

void flux_plugin_arg::flush() {
  for (int each : {FLUX_PLUGIN_ARG_IN, FLUX_PLUGIN_ARG_OUT}) {
    if (call != nullptr && std::exchange(written[each], false)) member(*call, each) = from_jansson(side(each));
  }
}

int flux_plugin_arg::fail(int code, std::string message) {
  error = std::move(message);
  return nacre::capi::fail(code);
}

flux_plugin_arg_t* flux_plugin_arg_create(void) noexcept {
  return std::make_unique<flux_plugin_arg>(nullptr).release();
}

void flux_plugin_arg_destroy(flux_plugin_arg_t* args) noexcept {
  if (args != nullptr && args->call == nullptr) delete args;
}

const char* flux_plugin_arg_strerror(flux_plugin_arg_t* args) noexcept {
  return args != nullptr ? args->error.c_str() : "no arguments";
}

int flux_plugin_arg_set(flux_plugin_arg_t* args, int flags, const char* json_str) noexcept {
  if (check(args, flags) < 0) return -1;
  if (json_str == nullptr) return store(args, flags | FLUX_PLUGIN_ARG_REPLACE, JsonRef(json_object()));
  Result<Json> value = parse_json(json_str);
  if (!value) return args->fail(EINVAL, value.error().message);
  return store(args, flags, to_jansson(*value));
}

int flux_plugin_arg_get(flux_plugin_arg_t* args, int flags, char** json_str) noexcept {
  if (check(args, flags) < 0) return -1;
  if (json_str == nullptr) return args->fail(EINVAL, "nowhere to put the string");
  Json value = from_jansson(args->side(flags));
  if (value.empty()) return args->fail(ENOENT, "no arguments have been set");
  return give(json_str, std::move(value));
}

int flux_plugin_arg_vpack(flux_plugin_arg_t* args, int flags, const char* fmt, va_list ap) noexcept {
  if (check(args, flags) < 0) return -1;
  if (fmt == nullptr) return args->fail(EINVAL, "no format given");
  Result<JsonRef> value = pack(fmt, ap);
  if (!value) return args->fail(EINVAL, value.error().message);
  return store(args, flags, *std::move(value));
}

int flux_plugin_arg_vunpack(flux_plugin_arg_t* args, int flags, const char* fmt, va_list ap) noexcept {
  if (check(args, flags) < 0) return -1;
  if (fmt == nullptr) return args->fail(EINVAL, "no format given");
  Result<void> done = unpack(args->side(flags), fmt, ap);
  return done ? 0 : args->fail(EINVAL, done.error().message);
}

int flux_plugin_arg_pack(flux_plugin_arg_t* args, int flags, const char* fmt, ...) noexcept {
  va_list ap;
  va_start(ap, fmt);
  int done = flux_plugin_arg_vpack(args, flags, fmt, ap);
  va_end(ap);
  return done;
}

int flux_plugin_arg_unpack(flux_plugin_arg_t* args, int flags, const char* fmt, ...) noexcept {
  va_list ap;
  va_start(ap, fmt);
  int done = flux_plugin_arg_vunpack(args, flags, fmt, ap);
  va_end(ap);
  return done;
}
