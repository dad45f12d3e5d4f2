// SPDX-License-Identifier: Apache-2.0
//
// nacre plugin list: the plugins that a job would load, as nacre-shell --explain=plugins prints them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.hpp"
#include "base/result.hpp"

namespace nacre::cli {

inline constexpr const char* kBuiltin = "builtin";  // the origin of builtin plugins

struct ListedPlugin {
  std::string name;
  std::string origin;  // kBuiltin, or a file
  std::vector<std::string> topics;
  bool replaces_builtin = false;
};

// Reads the plugins from what the shell has printed, in the order of its stack. An error: it has printed no list.
Result<std::vector<ListedPlugin>> listed_plugins(std::string_view printed);

// The options that plugins have asked for as they were loaded.
Result<std::vector<std::string>> asked_options(std::string_view printed);

// The Lua files that the shell has run, in order.
Result<std::vector<std::string>> read_files(std::string_view printed);

struct ListOptions {
  std::optional<std::string> initrc;   // none: the option `initrc`, else the installed one
  std::vector<std::string> options;    // OPT[=VAL]
  std::optional<std::string> jobspec;  // with `resources`; none: a job of one task
  std::optional<std::string> resources;
  bool json = false;
};

// Prints the list, and passes on what the shell has written to standard error; returns the exit code.
Result<int> list_plugins(const ListOptions& options);

}  // namespace nacre::cli
