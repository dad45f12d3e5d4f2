// SPDX-License-Identifier: Apache-2.0
#include "capi/dso.hpp"

#include <dlfcn.h>

#include <algorithm>

#include "capi/elf.hpp"

namespace nacre::capi {

Result<Dso> Dso::open(const std::string& path, int flags) {
  CHECK_OK(check_object(path));
  if (void* handle = ::dlopen(path.c_str(), flags)) return Dso(handle);
  const char* reason = ::dlerror();
  std::string why = reason != nullptr ? reason : "cannot be loaded";
  std::replace(why.begin(), why.end(), '\n', ' ');
  // The loader names the file that failed, which may be a library that the plugin needs.
  if (why.starts_with(path + ": ")) return invalid(std::move(why));
  return invalid(path + ": " + why);
}

Dso::~Dso() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* Dso::symbol(const char* name) const { return ::dlsym(handle_, name); }

}  // namespace nacre::capi
