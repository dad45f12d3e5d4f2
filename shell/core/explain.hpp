// SPDX-License-Identifier: Apache-2.0
//
// The plan of a job as text for people: what would run where, bound to what, with what changed in the environment,
// and which plugins had a say.
#pragma once

#include <set>
#include <string>

#include "plugin/host.hpp"

namespace nacre::core {

// After `task.init` was called for each task.
[[nodiscard]] std::string explain(plugin::Host& host);

// One line of JSON, {"plugins": [{"name", "origin", "topics": [...], "replaces_builtin"}, ...]}, in the order of
// the stack. `builtins`: the names of all builtin plugins.
[[nodiscard]] std::string explain_plugins(const plugin::Stack& stack, const std::set<std::string>& builtins);

}  // namespace nacre::core
