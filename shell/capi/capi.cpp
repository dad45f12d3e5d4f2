// SPDX-License-Identifier: Apache-2.0
#include "capi/capi.hpp"

#include <cstdlib>
#include <cstring>

#include "base/json.hpp"

namespace nacre::capi {

using namespace plugin;  // NOLINT: what it makes for C
namespace {

flux_shell* the_current = nullptr;

}  // namespace

flux_shell* current_shell() { return the_current; }

Result<ShellRef> ShellRef::of(Host& host) {
  if (the_current != nullptr && &the_current->host != &host) {
    return Error{EBUSY, "another shell in this process has loaded plugins"};
  }
  if (the_current == nullptr) the_current = std::make_unique<flux_shell>(host).release();
  return ShellRef(the_current);
}

ShellRef::~ShellRef() {
  if (shell_ == nullptr || --shell_->users > 0) return;
  // It stays current while its parts are destroyed: they run code of plugins, which may log.
  delete shell_;
  the_current = nullptr;
}

int fail(int code) {
  errno = code;
  return -1;
}

std::nullptr_t none(int code) {
  errno = code;
  return nullptr;
}

char* c_string(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

int give(char** json_str, const Json& value) {
  *json_str = c_string(dump_json(value));
  return *json_str != nullptr ? 0 : fail(ENOMEM);
}

std::optional<std::string> format(const char* format, va_list args) {
  char* made = nullptr;
  int size = ::vasprintf(&made, format, args);
  if (size < 0) return std::nullopt;
  std::string text(made, static_cast<std::size_t>(size));
  std::free(made);
  return text;
}

int unpack_for(flux_shell* shell, const char* function, json_t* root, const char* format, va_list args) {
  if (Result<void> done = unpack(root, format, args); !done) {
    if (shell != nullptr) shell->host.log().log(Level::debug, "", "{}: {}", function, done.error().message);
    return fail(EINVAL);
  }
  return 0;
}

}  // namespace nacre::capi

flux_shell::~flux_shell() {
  const std::string plugin = "(unloaded)";
  const std::string topic = "flux_shell_aux_set free function";
  nacre::plugin::CrashScope scope(plugin, topic);
  aux.clear();
}
