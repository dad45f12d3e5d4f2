// SPDX-License-Identifier: Apache-2.0
//
// The option `taskmap`: which plugin maps the tasks to the nodes.
#pragma once

#include "base/result.hpp"
#include "plugin/host.hpp"
#include "value/taskmap.hpp"

namespace nacre::core {

// What a plugin answers to the topic `taskmap.SCHEME`, for the option's scheme: a complete map with the job's
// numbers of tasks and nodes. Without the option, the job's map.
Result<value::Taskmap> chosen_taskmap(plugin::Host& host);

}  // namespace nacre::core
