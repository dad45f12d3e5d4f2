// SPDX-License-Identifier: Apache-2.0
//
// How viewers are reached: by the leader's server of front ends.
#pragma once

#include <functional>
#include <optional>

#include "control/server.hpp"
#include "plugins/control/viewers.hpp"

namespace nacre::plugins {

// `server`: null while there is none; then all goes nowhere. `code_of_tasks`: see Viewers::Link.
Viewers::Link viewer_link(const std::function<control::ControlServer*()>& server,
                          std::function<std::optional<int>()> code_of_tasks);

}  // namespace nacre::plugins
