// SPDX-License-Identifier: Apache-2.0
//
// A variable of this process, as long as the object lives; then as it was.
#pragma once

#include "base/program.hpp"

namespace nacre::kit {

class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name), before_(own_variable(name)) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace nacre::kit
