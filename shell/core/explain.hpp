// SPDX-License-Identifier: Apache-2.0
//
// The plan of a job as text for users: what would run where, bound to what, which changes to the environment, which
// options there are, and which plugins take part.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "plugin/host.hpp"

namespace nacre::core {

// Where a plan comes from.
struct PlanSources {
  Json jobspec;                    // its shell options, an object
  Json given;                      // the same with those of the command line
  std::vector<std::string> files;  // the Lua files that were run
};

// To be called after `task.init` was called for each task.
[[nodiscard]] std::string explain(plugin::Host& host, const PlanSources& sources);

// One line of JSON, {"plugins": [{"name", "origin", "topics": [...], "replaces_builtin"}, ...]}, in the order of
// the stack, and "read": [FILE, ...], the Lua files that were run. `builtins`: the names of all builtin plugins.
[[nodiscard]] std::string explain_plugins(const plugin::Stack& stack, const std::set<std::string>& builtins,
                                          const std::vector<std::string>& files);

}  // namespace nacre::core
