// SPDX-License-Identifier: Apache-2.0
//
// The plan of a job as text for users: what would run where, bound to what, which changes to the environment, and
// which plugins take part.
#pragma once

#include <set>
#include <string>

#include "plugin/host.hpp"

namespace nacre::core {

// To be called after `task.init` was called for each task.
[[nodiscard]] std::string explain(plugin::Host& host);

// One line of JSON, {"plugins": [{"name", "origin", "topics": [...], "replaces_builtin"}, ...]}, in the order of
// the stack. `builtins`: the names of all builtin plugins.
[[nodiscard]] std::string explain_plugins(const plugin::Stack& stack, const std::set<std::string>& builtins);

}  // namespace nacre::core
