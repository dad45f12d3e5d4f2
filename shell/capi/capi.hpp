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
#include <flux/shell.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capi/aux_items.hpp"
#include "capi/dso.hpp"
#include "capi/jansson.hpp"
#include "capi/values.hpp"
#include "plugin/crash.hpp"
#include "plugin/host.hpp"

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
  std::string hwloc_xml;                         // the same
  std::size_t next_task = 0;                     // of flux_shell_task_next()
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

}  // namespace nacre::capi
