// SPDX-License-Identifier: Apache-2.0
//
// What is done in libpmix's thread before it handles what a client requests about a group.
#pragma once

#include <string>

namespace nacre::pmix {

// All tasks start again, in the namespace `home`: from the next request on libpmix has no groups of former starts.
void begin_groups_of(std::string home);

void before_group_call();

}  // namespace nacre::pmix
