// SPDX-License-Identifier: Apache-2.0
#include "group_calls.hpp"

#include <mutex>
#include <utility>

#ifdef NACRE_PMIX_FORMER_GROUPS
#include "former_groups.h"
#endif

namespace nacre::pmix {
namespace {

std::mutex home_mutex;
std::string home_of_all;  // "": they have not started again

}  // namespace

void begin_groups_of(std::string home) {
  std::lock_guard lock(home_mutex);
  home_of_all = std::move(home);
}

// What a task of a former start has sent may be read only now, so it is done each time.
void before_group_call() {
#ifdef NACRE_PMIX_FORMER_GROUPS
  std::lock_guard lock(home_mutex);
  if (!home_of_all.empty()) forget_former_groups(home_of_all.c_str());
#endif
}

}  // namespace nacre::pmix
