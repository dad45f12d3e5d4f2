// SPDX-License-Identifier: Apache-2.0
//
// What the members of a group request together, as libpmix passes it on.
#pragma once

#include <string>
#include <vector>

#include "flux.hpp"
#include "groups.hpp"

namespace nacre::pmix {

struct GroupCall {
  Groups::Kind kind = Groups::Kind::construct;
  std::string name;
  std::vector<pmix_proc_t> members;
  double timeout = 0;     // seconds; 0: none
  bool notifies = false;  // the members, when one of them ends
  Groups::Part part = {};
};

}  // namespace nacre::pmix
