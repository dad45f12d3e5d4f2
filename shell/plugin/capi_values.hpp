// SPDX-License-Identifier: Apache-2.0
//
// Behind the handles of <flux/idset.h>, <flux/taskmap.h> and <flux/hostlist.h>.
#pragma once

#include <cstdint>
#include <string>

#include "value/hostlist.hpp"
#include "value/idset.hpp"
#include "value/taskmap.hpp"

struct idset {
  nacre::value::Idset ids;
};

struct taskmap {
  nacre::value::Taskmap map;
  mutable idset taskids;  // what taskmap_taskids() gave last
};

struct hostlist {
  nacre::value::Hostlist names;
  std::uint64_t cursor = 0;  // names.size(): past the last
  std::string name;          // what was returned last
};
