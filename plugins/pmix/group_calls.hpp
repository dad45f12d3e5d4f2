// SPDX-License-Identifier: Apache-2.0
//
// libpmix's thread while it handles a client's request about a group.
#pragma once

#include <string>

namespace nacre::pmix {

// All tasks start again, in the namespace `home`: from the next request on libpmix has no groups of former starts.
void begin_groups_of(std::string home);

// While libpmix handles one request.
class GroupCallScope {
 public:
  GroupCallScope();
  ~GroupCallScope();
  GroupCallScope(const GroupCallScope&) = delete;
  GroupCallScope& operator=(const GroupCallScope&) = delete;
};
bool is_in_group_call();

// Whether `operation` is not the one that this request was last about: libpmix 5.0 calls twice to destruct a group
// that only this node has, and ends with the shell if both calls are answered.
bool is_first_call_for(const void* operation);

}  // namespace nacre::pmix
