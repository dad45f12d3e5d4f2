// SPDX-License-Identifier: Apache-2.0
//
// The implementation of the handles of <flux/idset.h>, <flux/taskmap.h> and <flux/hostlist.h>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <flux/idset.h>

#include "base/result.hpp"
#include "value/hostlist.hpp"
#include "value/idset.hpp"
#include "value/taskmap.hpp"

// All ids are below `universe`, which is from 1 to IDSET_MAX_UNIVERSE. By default it is empty, and grows.
struct idset {
  static constexpr std::size_t kDefaultUniverse = 1024;

  // `ids` are below IDSET_MAX_UNIVERSE; the universe is at least `at_least`.
  static idset of(nacre::value::Idset ids, std::size_t at_least = kDefaultUniverse);
  // As idset_create(3).
  static nacre::Result<idset> create(std::size_t size, int flags);

  // Sets or clears each id of `others`. The set grows if its flags allow that; an error (EINVAL, ERANGE) changes
  // nothing.
  nacre::Result<void> add(const nacre::value::Idset& others);
  nacre::Result<void> subtract(const nacre::value::Idset& others);
  // The same for first..last.
  nacre::Result<void> add(unsigned int first, unsigned int last);
  nacre::Result<void> subtract(unsigned int first, unsigned int last);
  nacre::Result<void> reach(std::size_t id);  // grows until `id` is in the universe
  [[nodiscard]] bool has(int flag) const { return (flags & flag) != 0; }

  nacre::value::Idset ids;
  std::size_t universe = kDefaultUniverse;
  int flags = IDSET_FLAG_AUTOGROW;
  unsigned int taken = IDSET_INVALID_ID;  // what idset_alloc() took last
};

struct taskmap {
  nacre::value::Taskmap map;
  mutable idset taskids;  // what taskmap_taskids() returned last
};

struct hostlist {
  nacre::value::Hostlist names;
  std::uint64_t cursor = 0;  // names.size(): past the last
  bool is_removed = false;   // the name at the cursor: the one there now is the next
  std::string name;          // the name that was returned last
};

struct hostlist_hostname {
  std::string name;
};
