// SPDX-License-Identifier: Apache-2.0
//
// A shared library that is loaded only when it is needed, so that other programs do not pay for it when they start.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"

namespace nacre::archive {

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

  // It is loaded until the process ends, and no further function of it can be found: for libraries that leave
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

}  // namespace nacre::archive
