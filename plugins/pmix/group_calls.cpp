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
std::string home_of_all;  // "": the tasks have not started again

thread_local bool is_in_call = false;
thread_local const void* called_for = nullptr;

}  // namespace

void begin_groups_of(std::string home) {
  std::lock_guard lock(home_mutex);
  home_of_all = std::move(home);
}

// A request of a task of a former start may be read only now, so its groups are forgotten each time.
GroupCallScope::GroupCallScope() {
  is_in_call = true;
#ifdef NACRE_PMIX_FORMER_GROUPS
  std::lock_guard lock(home_mutex);
  if (!home_of_all.empty()) forget_former_groups(home_of_all.c_str());
#endif
}

GroupCallScope::~GroupCallScope() {
  is_in_call = false;
  called_for = nullptr;
}

bool is_in_group_call() { return is_in_call; }

bool is_first_call_for(const void* operation) {
  return !is_in_call || std::exchange(called_for, operation) != operation;
}

}  // namespace nacre::pmix
