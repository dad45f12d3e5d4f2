// SPDX-License-Identifier: Apache-2.0
//
// An option that is a list of names: an array, or text with commas between them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

namespace nacre::plugins {

inline Result<std::vector<std::string>> list_option(const JsonAt& option) {
  if (option.json().is_array()) return option.strings();
  // A name of digits has become a number on the command line.
  std::string text = option.json().is_number_integer() ? option.json().dump() : TRY(option.string());
  std::vector<std::string> names;
  for (std::string_view name : split(text, ',')) names.emplace_back(trim(name));
  return names;
}

}  // namespace nacre::plugins
