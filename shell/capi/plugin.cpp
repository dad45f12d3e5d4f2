// SPDX-License-Identifier: Apache-2.0
//
// <flux/plugin.h>: identity, handlers, attached data, configuration.
#include <sys/random.h>

#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr int kAllLoadFlags =
    FLUX_PLUGIN_RTLD_LAZY | FLUX_PLUGIN_RTLD_NOW | FLUX_PLUGIN_RTLD_GLOBAL | FLUX_PLUGIN_RTLD_DEEPBIND;

// RFC 4122, version 4.
std::string random_uuid() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) < 0) bytes = {};
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  }
  return text;
}

std::string name_of_file(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  return name;
}

struct CHandler {
  flux_plugin* plugin;
  flux_plugin_f callback;
  void* data;

  Result<void> operator()(Call& call) const {
    flux_plugin_arg args(&call);
    int returned = TRY(plugin->run(call.topic, [&] { return callback(plugin, call.topic.c_str(), &args, data); }));
    args.flush();
    if (returned < 0) return invalid("the plugin's handler failed");
    return {};
  }
};

flux_plugin_f callback_of(const Handler* handler) {
  const CHandler* found = handler != nullptr ? handler->target<CHandler>() : nullptr;
  if (found == nullptr) return none(ENOENT);
  return found->callback;
}

}  // namespace

flux_plugin::flux_plugin(ShellRef ref, const std::string& path, int rtld_flags)
    : Plugin(name_of_file(path), path), shell(std::move(ref)), uuid(random_uuid()), flags(rtld_flags) {}

flux_plugin::~flux_plugin() {
  const std::string topic = "flux_plugin_aux_set free function";
  CrashScope scope(name(), topic);
  aux.clear();
}

int flux_plugin::fail(int code, std::string message) {
  error = std::move(message);
  return nacre::capi::fail(code);
}

int flux_plugin_set_name(flux_plugin_t* p, const char* name) noexcept {
  if (p == nullptr) return fail(EINVAL);
  if (name == nullptr || *name == '\0') return p->fail(EINVAL, "a plugin's name must not be empty");
  p->set_name(name);
  return 0;
}

const char* flux_plugin_get_name(flux_plugin_t* p) noexcept {
  return p != nullptr ? p->name().c_str() : none(EINVAL);
}

const char* flux_plugin_get_path(flux_plugin_t* p) noexcept {
  return p != nullptr ? p->origin().c_str() : none(EINVAL);
}

const char* flux_plugin_get_uuid(flux_plugin_t* p) noexcept {
  return p != nullptr ? p->uuid.c_str() : none(EINVAL);
}

const char* flux_plugin_strerror(flux_plugin_t* p) noexcept {
  return p != nullptr ? p->error.c_str() : "no plugin handle";
}

int flux_plugin_get_flags(flux_plugin_t* p) noexcept { return p != nullptr ? p->flags : fail(EINVAL); }

int flux_plugin_set_flags(flux_plugin_t* p, int flags) noexcept {
  if (p == nullptr) return fail(EINVAL);
  if ((flags & ~kAllLoadFlags) != 0) return p->fail(EINVAL, fmt::format("unknown flags in {:#x}", flags));
  p->flags = flags;
  return 0;
}

int flux_plugin_add_handler(flux_plugin_t* p, const char* topic, flux_plugin_f cb, void* data) noexcept {
  if (p == nullptr) return fail(EINVAL);
  if (topic == nullptr || cb == nullptr) return p->fail(EINVAL, "a handler needs a topic and a function");
  p->on(topic, CHandler{p, cb, data});
  return 0;
}

int flux_plugin_remove_handler(flux_plugin_t* p, const char* topic) noexcept {
  if (p == nullptr) return fail(EINVAL);
  if (topic == nullptr) return p->fail(EINVAL, "no topic given");
  p->off(topic);
  return 0;
}

flux_plugin_f flux_plugin_get_handler(flux_plugin_t* p, const char* topic) noexcept {
  if (p == nullptr || topic == nullptr) return none(EINVAL);
  for (const Plugin::Subscription& each : p->subscriptions()) {
    if (each.handler && each.topic == topic) return callback_of(&each.handler);
  }
  return none(ENOENT);
}

flux_plugin_f flux_plugin_match_handler(flux_plugin_t* p, const char* topic) noexcept {
  if (p == nullptr || topic == nullptr) return none(EINVAL);
  return callback_of(p->match(topic));
}

int flux_plugin_register(flux_plugin_t* p, const char* name, const struct flux_plugin_handler t[]) noexcept {
  if (p == nullptr) return fail(EINVAL);
  if (t == nullptr) return p->fail(EINVAL, "no table of handlers given");
  if (name != nullptr && flux_plugin_set_name(p, name) < 0) return -1;
  for (; t->topic != nullptr; ++t) {
    if (flux_plugin_add_handler(p, t->topic, t->cb, t->data) < 0) return -1;
  }
  return 0;
}

int flux_plugin_aux_set(flux_plugin_t* p, const char* key, void* val, flux_free_f free_fn) noexcept {
  if (p == nullptr) return fail(EINVAL);
  if (Result<void> set = p->aux.set(key, val, free_fn); !set) return p->fail(set.error());
  return 0;
}

void* flux_plugin_aux_get(flux_plugin_t* p, const char* key) noexcept {
  if (p == nullptr || key == nullptr) return none(EINVAL);
  void* found = p->aux.get(key);
  return found != nullptr ? found : none(ENOENT);
}

void flux_plugin_aux_delete_value(flux_plugin_t* p, const void* val) noexcept {
  if (p != nullptr && val != nullptr) p->aux.remove(val);
}

void flux_plugin_aux_delete(flux_plugin_t* p, const void* val) noexcept { flux_plugin_aux_delete_value(p, val); }

int flux_plugin_set_conf(flux_plugin_t* p, const char* json_str) noexcept {
  if (p == nullptr) return fail(EINVAL);
  if (json_str == nullptr) return p->fail(EINVAL, "no configuration given");
  Result<Json> conf = parse_json(json_str);
  if (!conf) return p->fail(in("configuration", std::move(conf).error()));
  if (!conf->is_object()) return p->fail(EINVAL, "configuration: expected an object");
  p->conf = to_jansson(*conf);
  p->conf_text = dump_json(*conf);
  return 0;
}

const char* flux_plugin_get_conf(flux_plugin_t* p) noexcept {
  if (p == nullptr) return none(EINVAL);
  if (p->conf_text) return p->conf_text->c_str();
  p->fail(ENOENT, "the plugin was loaded without configuration");
  return nullptr;
}

int flux_plugin_conf_unpack(flux_plugin_t* p, const char* fmt, ...) noexcept {
  if (p == nullptr) return fail(EINVAL);
  if (fmt == nullptr) return p->fail(EINVAL, "no format given");
  if (flux_plugin_get_conf(p) == nullptr) return -1;
  va_list args;
  va_start(args, fmt);
  Result<void> done = unpack(p->conf.get(), fmt, args);
  va_end(args);
  if (!done) return p->fail(in("configuration", std::move(done).error()));
  return 0;
}

// <flux/plugin.h>: the arguments of a call.

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
