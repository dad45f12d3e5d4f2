// SPDX-License-Identifier: Apache-2.0
#include "capi/capi.hpp"

namespace nacre::capi {

using namespace plugin;  // NOLINT: what it makes for C

Result<void> AuxItems::set(const char* key, void* value, flux_free_f free_fn) {
  if (value == nullptr && (key == nullptr || free_fn != nullptr)) return invalid("neither a key nor a value");
  if (key == nullptr && free_fn == nullptr) return invalid("a value without a key needs a function to free it");
  if (key != nullptr) {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (!items_[i].named || items_[i].key != key) continue;
      erase(i);
      break;
    }
  }
  if (value != nullptr) items_.push_back({key != nullptr, key != nullptr ? key : "", value, free_fn});
  return {};
}

void* AuxItems::get(std::string_view key) const {
  for (const Item& each : items_) {
    if (each.named && each.key == key) return each.value;
  }
  return nullptr;
}

void AuxItems::remove(const void* value) {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].value == value) return erase(i);
  }
}

void AuxItems::clear() {
  while (!items_.empty()) erase(items_.size() - 1);
}

// Plugins cast functions of other types, such as flux_future_destroy, to this one, as plugins written for Flux do.
#ifdef __clang__
[[clang::no_sanitize("function")]]
#endif
void AuxItems::erase(std::size_t index) {
  // Taken out first, as its function may call this object.
  Item item = std::move(items_[index]);
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(index));
  if (item.free_fn != nullptr) item.free_fn(item.value);
}

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

void Callback::failed(const std::string& plugin, const std::string& what, const char* why) {
  flux_shell* shell = current_shell();
  if (shell == nullptr) return;
  shell->host.raise(
      {"exec", 0, fmt::format("plugin '{}': {}: the plugin threw an exception: {}", plugin, what, why), {}});
}

}  // namespace nacre::capi

flux_shell::~flux_shell() {
  const std::string plugin = "(unloaded)";
  const std::string topic = "flux_shell_aux_set free function";
  nacre::plugin::CrashScope scope(plugin, topic);
  aux.clear();
}
