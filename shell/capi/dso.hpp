// SPDX-License-Identifier: Apache-2.0
//
// A mapped shared object, which is unmapped at the end.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace nacre::capi {

class Dso {
 public:
  // dlopen(3) with RTLD_* `flags`. An error is one line that starts with the path.
  static Result<Dso> open(const std::string& path, int flags);
  Dso(Dso&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Dso& operator=(Dso&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Dso();

  [[nodiscard]] void* symbol(const char* name) const;  // nullptr: there is none

 private:
  explicit Dso(void* handle) : handle_(handle) {}
  void* handle_ = nullptr;
};

// Facts about an object or a program, found without loading it. In two cases dlopen(3) is of no help: for another
// machine it reports "no such file", and for a file that is cut off it dies of SIGBUS.

// An error, starting with the path, if the file is an ELF object of this word size and byte order that is for
// another machine, or that is shorter than its program headers demand. dlopen has to judge all other files.
Result<void> check_object(const std::string& path);

// The names of the shared libraries that the file itself needs (DT_NEEDED), without those that these need. Empty if
// the file is no dynamic ELF file of this word size and byte order, or cannot be read.
std::vector<std::string> needed_libraries(const std::string& path);

// The part of libflux that a shell's plugins use. The folder flux makes it, which is above this one, and the
// shell's handle owns it.
class Extension {
 public:
  Extension() = default;
  virtual ~Extension() = default;
  Extension(const Extension&) = delete;
  Extension& operator=(const Extension&) = delete;
};

}  // namespace nacre::capi
