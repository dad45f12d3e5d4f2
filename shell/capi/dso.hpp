// SPDX-License-Identifier: Apache-2.0
//
// A mapped shared object, which is unmapped at the end.
#pragma once

#include <string>
#include <utility>

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

}  // namespace nacre::capi
