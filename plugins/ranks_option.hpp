// SPDX-License-Identifier: Apache-2.0
//
// An option that says which tasks: "all" (none), an idset (RFC 22), or a rank. The brackets of an idset look like an
// array to the command line, so arrays of ranks are taken too.
#pragma once

#include <optional>
#include <string>

#include "base/json.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

inline Result<std::optional<value::Idset>> ranks_option(const JsonAt& option) {
  const Json& json = option.json();
  std::string text = json.is_string() ? json.get<std::string>() : dump_json(json);
  if (text == "all") return std::optional<value::Idset>();
  return std::optional<value::Idset>(TRY(in(option.path(), value::Idset::parse(text))));
}

}  // namespace nacre::plugins
