// SPDX-License-Identifier: Apache-2.0
//
// A variable of this process, set or, with nullopt, not set as long as the object lives; then as it was.
#pragma once

#include "base/program.hpp"

namespace nacre::kit {

class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name), before_(own_variable(name)) {
    set(value);
  }
  ~Variable() { set(before_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    value ? ::setenv(name_, value->c_str(), 1) : ::unsetenv(name_);
  }

  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace nacre::kit
