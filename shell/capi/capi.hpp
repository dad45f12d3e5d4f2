// SPDX-License-Identifier: Apache-2.0
//
// What the handles of <flux/shell.h> point to, and what the functions of the C API share. The files of this folder
// follow the sections of the public headers.
//
//   flux_shell_t       flux_shell: one for a Host, while it has loaded objects
//   flux_plugin_t      flux_plugin: a Plugin from a shared object
//   flux_plugin_arg_t  flux_plugin_arg: a Call, for C
//   flux_shell_task_t  task::Task
//   flux_cmd_t         task::Command
#pragma once

#ifndef FLUX_SHELL_PLUGIN_NAME
#define FLUX_SHELL_PLUGIN_NAME "capi"
#endif
#include <flux/idset.h>
#include <flux/shell.h>
#include <flux/types.h>

#include <exception>

#include "capi/jansson.hpp"
#include "capi/loader.hpp"
#include "plugin/crash.hpp"
#include "plugin/host.hpp"

namespace nacre::capi {

// Data that plugins attach to a handle: a pointer under a key, with the function that frees it. The rules are those
// of flux_shell_aux_set(3).
class AuxItems : Noncopyable {
 public:
  AuxItems() = default;
  ~AuxItems() { clear(); }

  // Stores `value` under `key` (nullptr: without a key), and frees the value that was there. A null value only
  // frees. EINVAL if both are null, or if `free_fn` comes without a value.
  Result<void> set(const char* key, void* value, flux_free_f free_fn);
  [[nodiscard]] void* get(std::string_view key) const;  // nullptr: none
  // Frees the first item with this value.
  void remove(const void* value);
  // Frees all, the newest first, and those that are added meanwhile.
  void clear();

 private:
  struct Item {
    bool named = false;
    std::string key;
    void* value = nullptr;
    flux_free_f free_fn = nullptr;
  };

  void erase(std::size_t index);

  std::vector<Item> items_;
};

// The part of libflux that a shell's plugins use. The folder flux, which is above this one, makes it, and the
// shell's handle owns it.
class Extension : Noncopyable {
 public:
  Extension() = default;
  virtual ~Extension() = default;
};

}  // namespace nacre::capi

// The implementation of the handles of <flux/idset.h>, <flux/taskmap.h> and <flux/hostlist.h>.

// All ids are below `universe`, which is from 1 to IDSET_MAX_UNIVERSE. By default it is empty, and grows.
struct idset {
  static constexpr std::size_t kDefaultUniverse = 1024;

  // `ids` are below IDSET_MAX_UNIVERSE; the universe is at least `at_least`.
  static idset of(nacre::value::Idset ids, std::size_t at_least = kDefaultUniverse);
  // As idset_create(3).
  static nacre::Result<idset> create(std::size_t size, int flags);

  // Sets or clears each id of `others`. The set grows if its flags allow that; an error (EINVAL, ERANGE) changes
  // nothing.
  nacre::Result<void> add(const nacre::value::Idset& others);
  nacre::Result<void> subtract(const nacre::value::Idset& others);
  // As the other add(), for first..last.
  nacre::Result<void> add(unsigned int first, unsigned int last);
  nacre::Result<void> subtract(unsigned int first, unsigned int last);
  nacre::Result<void> reach(std::size_t id);  // grows until `id` is in the universe
  [[nodiscard]] bool has(int flag) const { return (flags & flag) != 0; }

  nacre::value::Idset ids;
  std::size_t universe = kDefaultUniverse;
  int flags = IDSET_FLAG_AUTOGROW;
  unsigned int taken = IDSET_INVALID_ID;  // what idset_alloc() took last
};

struct taskmap {
  nacre::value::Taskmap map;
  mutable idset taskids;  // what taskmap_taskids() returned last
};

struct hostlist {
  nacre::value::Hostlist names;
  std::uint64_t cursor = 0;  // names.size(): past the last
  bool is_removed = false;   // the name at the cursor: the one there now is the next
  std::string name;          // the name that was returned last
};

struct hostlist_hostname {
  std::string name;
};

// Objects are unmapped only here, after all that might run their code is gone.
struct flux_shell {
  explicit flux_shell(nacre::plugin::Host& shell_host) : host(shell_host) {}
  ~flux_shell();

  nacre::plugin::Host& host;
  int users = 0;  // ShellRefs
  nacre::plugin::CrashGuard crash_guard;
  std::vector<nacre::capi::Dso> objects;
  nacre::capi::KeptJson kept;
  taskmap map;
  hostlist hosts;                                // of the job, once it was asked for
  std::string hwloc_xml;                         // of the node, once it was asked for
  std::size_t next_task = 0;                     // the position of flux_shell_task_next()
  std::unique_ptr<nacre::capi::Extension> flux;  // destroyed after `aux`, whose items may hold parts of it
  nacre::capi::AuxItems aux;
  std::vector<nacre::plugin::Registration> waits;  // for answers that plugins have asked for
};

namespace nacre::capi {

// The flux_shell of a host: its first ShellRef makes it, and its last one destroys it. The C log functions have no
// handle, so capi.cpp has one static pointer to it: the one exception to "no globals".
class ShellRef {
 public:
  // EBUSY while another host has loaded objects.
  static Result<ShellRef> of(plugin::Host& host);
  ShellRef(ShellRef&& other) noexcept : shell_(std::exchange(other.shell_, nullptr)) {}
  ShellRef& operator=(ShellRef&&) = delete;
  ~ShellRef();

  flux_shell* operator->() const { return shell_; }
  [[nodiscard]] flux_shell* get() const { return shell_; }

 private:
  explicit ShellRef(flux_shell* shell) : shell_(shell) { ++shell_->users; }
  flux_shell* shell_;
};

[[nodiscard]] flux_shell* current_shell();  // nullptr: no object is loaded

}  // namespace nacre::capi

struct flux_plugin final : nacre::plugin::Plugin {
  flux_plugin(nacre::capi::ShellRef ref, const std::string& path, int rtld_flags);
  ~flux_plugin() override;

  // Runs the object's code. An exception becomes an error.
  template <typename Code>
  nacre::Result<int> run(const std::string& topic, const Code& code);
  int fail(int code, std::string message);  // for flux_plugin_strerror(); returns -1 with errno
  int fail(const nacre::Error& why) { return fail(why.code, why.message); }

  nacre::capi::ShellRef shell;  // first: it is destroyed last
  std::string uuid;
  int flags;
  std::optional<std::string> conf_text;
  nacre::capi::JsonRef conf;
  std::string error;
  nacre::capi::AuxItems aux;
};

template <typename Code>
nacre::Result<int> flux_plugin::run(const std::string& topic, const Code& code) {
  nacre::plugin::CrashScope scope(name(), topic);
  try {
    return code();
  } catch (const std::exception& thrown) {
    return nacre::invalid(std::string("the plugin threw an exception: ") + thrown.what());
  } catch (...) {
    return nacre::invalid("the plugin threw what is no std::exception");
  }
}

// The two objects of a Call are converted when they are first used, and back only if they were written to.
struct flux_plugin_arg {
  explicit flux_plugin_arg(nacre::plugin::Call* of_call) : call(of_call) {}

  json_t* side(int flags);
  void replace(int flags, nacre::capi::JsonRef value);
  [[nodiscard]] nacre::Json& member(nacre::plugin::Call& of, int flags) const;
  void flush();  // writes to the call
  int fail(int code, std::string message);

  nacre::plugin::Call* call;  // nullptr: made by flux_plugin_arg_create()
  nacre::capi::JsonRef sides[2];
  bool written[2] = {false, false};
  std::vector<nacre::capi::JsonRef> older;  // so that strings that were unpacked stay valid
  std::string error;
};

namespace nacre::capi {

// Handles of tasks and commands are the objects themselves.
inline task::Task* of(flux_shell_task_t* task) { return reinterpret_cast<task::Task*>(task); }
inline flux_shell_task_t* handle(task::Task* task) { return reinterpret_cast<flux_shell_task_t*>(task); }
inline task::Command* of(flux_cmd_t* cmd) { return reinterpret_cast<task::Command*>(cmd); }
inline const task::Command* of(const flux_cmd_t* cmd) { return reinterpret_cast<const task::Command*>(cmd); }
inline flux_cmd_t* handle(task::Command* cmd) { return reinterpret_cast<flux_cmd_t*>(cmd); }

// -1 with errno.
int fail(int code);
inline int fail_with(const Result<void>& result) { return result ? 0 : fail(result.error().code); }
// nullptr with errno, for functions that return pointers.
std::nullptr_t none(int code);

// A copy that the caller frees with free(3).
char* c_string(const std::string& text);
int give(char** json_str, const Json& value);  // 0, or -1 with ENOMEM

// printf(3); none if it fails.
std::optional<std::string> format(const char* format, va_list args);

// unpack(); an error goes to the debug log, as C gets only EINVAL. Returns 0 or -1.
int unpack_for(flux_shell* shell, const char* function, json_t* root, const char* format, va_list args);

// Code of a plugin that is called later, outside of any topic: by a watcher, a future, or a message. Each such
// function is kept together with a Callback. That is made while the plugin runs and remembers the plugin, so that a
// crash names it, and so that an exception ends the job with a message and goes no further.
class Callback {
 public:
  // `what` is used in messages, as "timer callback"; it has to be a literal.
  explicit Callback(std::string_view what) : plugin_(plugin::running_plugin_name()), what_(what) {}

  // `code` may destroy this object.
  template <typename Code>
  void run(const Code& code) const {
    const std::string plugin = plugin_;
    const std::string what(what_);
    plugin::CrashScope scope(plugin, what);
    try {
      code();
    } catch (const std::exception& thrown) {
      failed(plugin, what, thrown.what());
    } catch (...) {
      failed(plugin, what, "what is no std::exception");
    }
  }

 private:
  static void failed(const std::string& plugin, const std::string& what, const char* why);

  std::string plugin_;
  std::string_view what_;
};

}  // namespace nacre::capi
