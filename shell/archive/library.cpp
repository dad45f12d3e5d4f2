// SPDX-License-Identifier: Apache-2.0
#include "archive/library.hpp"

#include <dlfcn.h>

#include "base/program.hpp"

namespace nacre::archive {

Result<Library> Library::load() {
  Library library(TRY(DynamicLibrary::load("libarchive.so.13", "libarchive13")));
#define NACRE_FIND(name) CHECK_OK(library.loaded_.find(#name, library.name));
  NACRE_ARCHIVE_FUNCTIONS(NACRE_FIND)
#undef NACRE_FIND
  library.utf8_.reset(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr));
  return library;
}

std::string Library::why(::archive* handle) const {
  const char* text = archive_error_string(handle);
  return text != nullptr ? text : "unknown error";
}

Result<void> Library::check(::archive* handle, int code) const {
  if (code == ARCHIVE_OK) return {};
  return Error{archive_errno(handle), why(handle)};
}

Library::Utf8::Utf8(const Library& library)
    : before_(library.utf8_ ? ::uselocale(library.utf8_.get()) : locale_t{}) {}

Library::Utf8::~Utf8() {
  if (before_ != locale_t{}) ::uselocale(before_);
}

// ---- dynamic library --------------------------------------------------------------------

void DynamicLibrary::Close::operator()(void* handle) const { ::dlclose(handle); }

Result<DynamicLibrary> DynamicLibrary::load(const char* soname, const char* package) {
  void* handle = load_library(soname, RTLD_NOW | RTLD_LOCAL);
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
