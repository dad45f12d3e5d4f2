// SPDX-License-Identifier: Apache-2.0
//
// libarchive, loaded when an archive is read or written. Each function that is used is a member with the function's
// name and type; see archive_read(3), archive_write(3), archive_entry(3).
#pragma once

#include <locale.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/result.hpp"

namespace nacre::archive {

// A shared library that is loaded only when it is needed, so that other programs do not pay for it when they start.
class DynamicLibrary {
 public:
  // By its soname; `package` is Debian's package that has it, for the error.
  static Result<DynamicLibrary> load(const char* soname, const char* package);

  // Its function `name`, as a pointer of the function's type in its header. Valid as long as this object lives.
  template <typename Function>
  Result<void> find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(TRY(symbol(name)));
    return {};
  }

  // It stays loaded until the process ends, but no further function of it can be found: for libraries that leave
  // something behind, such as signal handlers.
  void keep() { static_cast<void>(handle_.release()); }

 private:
  struct Close {
    void operator()(void* handle) const;
  };
  DynamicLibrary(std::string soname, void* handle) : soname_(std::move(soname)), handle_(handle) {}
  [[nodiscard]] Result<void*> symbol(const char* name) const;

  std::string soname_;
  std::unique_ptr<void, Close> handle_;
};

// clang-format off
#define NACRE_ARCHIVE_FUNCTIONS(X)                                                                              \
  X(archive_errno) X(archive_error_string) X(archive_filter_bytes)                                              \
  X(archive_read_new) X(archive_read_free) X(archive_read_support_format_tar) X(archive_read_support_filter_gzip) \
  X(archive_read_support_filter_zstd) X(archive_read_support_filter_xz) X(archive_read_open_fd)                 \
  X(archive_read_open_memory) X(archive_read_next_header) X(archive_read_header_position)                       \
  X(archive_read_data_block)                                                                                    \
  X(archive_write_new) X(archive_write_free) X(archive_write_fail) X(archive_write_set_format_pax)              \
  X(archive_write_add_filter_gzip) X(archive_write_add_filter_xz) X(archive_write_set_bytes_per_block)          \
  X(archive_write_open) X(archive_write_header) X(archive_write_data) X(archive_write_finish_entry)             \
  X(archive_write_close)                                                                                        \
  X(archive_entry_new) X(archive_entry_free) X(archive_entry_pathname) X(archive_entry_filetype)                \
  X(archive_entry_perm) X(archive_entry_size) X(archive_entry_mtime) X(archive_entry_mtime_nsec)                \
  X(archive_entry_symlink) X(archive_entry_hardlink) X(archive_entry_sparse_reset) X(archive_entry_sparse_next) \
  X(archive_entry_set_pathname) X(archive_entry_set_filetype) X(archive_entry_set_perm)                         \
  X(archive_entry_set_size) X(archive_entry_set_mtime) X(archive_entry_set_symlink)                             \
  X(archive_entry_set_hardlink) X(archive_entry_sparse_add_entry)
// clang-format on

class Library {
 public:
  static Result<Library> load();

#define NACRE_DECLARE(name) decltype(&::name) name = nullptr;
  NACRE_ARCHIVE_FUNCTIONS(NACRE_DECLARE)
#undef NACRE_DECLARE

  // libarchive's text for its last failure.
  [[nodiscard]] std::string why(::archive* handle) const;
  // Ok, or libarchive's error. Its warnings count as errors too.
  [[nodiscard]] Result<void> check(::archive* handle, int code) const;

  // libarchive takes names for text in the thread's locale, and loses those that it cannot convert. While this
  // object lives they are UTF-8, or bytes if the system has no UTF-8 locale.
  class Utf8 : Noncopyable {
   public:
    explicit Utf8(const Library& library);
    ~Utf8();

   private:
    locale_t before_;
  };

 private:
  struct FreeLocale {
    void operator()(locale_t locale) const { ::freelocale(locale); }
  };
  explicit Library(DynamicLibrary loaded) : loaded_(std::move(loaded)) {}

  DynamicLibrary loaded_;
  std::unique_ptr<std::remove_pointer_t<locale_t>, FreeLocale> utf8_;
};

}  // namespace nacre::archive
