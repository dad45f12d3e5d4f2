// SPDX-License-Identifier: Apache-2.0
#include "archive/dynamic_library.hpp"

#include <dlfcn.h>

#include <fmt/format.h>

namespace nacre::archive {

void DynamicLibrary::Close::operator()(void* handle) const { ::dlclose(handle); }

Result<DynamicLibrary> DynamicLibrary::load(const char* soname, const char* package) {
  void* handle = ::dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return DynamicLibrary(soname, handle);
  const char* why = ::dlerror();
  return Error{ENOENT, fmt::format("cannot load {} (Debian's package {}): {}", soname, package,
                                   why != nullptr ? why : "unknown")};
}

Result<void*> DynamicLibrary::symbol(const char* name) const {
  void* found = ::dlsym(handle_.get(), name);
  if (found == nullptr) return Error{ENOENT, fmt::format("{} has no {}; a newer one is needed", soname_, name)};
  return found;
}

}  // namespace nacre::archive
