// SPDX-License-Identifier: Apache-2.0
//
// The option `taskmap`: which plugin maps the tasks to the nodes.
#pragma once

#include "base/result.hpp"
#include "plugin/host.hpp"
#include "value/taskmap.hpp"

namespace nacre::core {

// What the topic `taskmap.SCHEME` answers for the scheme of the option: a whole map with as many tasks and nodes as the job's. Without
// the option, the job's.
Result<value::Taskmap> chosen_taskmap(plugin::Host& host);

}  // namespace nacre::core
