// SPDX-License-Identifier: Apache-2.0
//
// The entry of this job in the list of jobs, as its leader makes it.
#pragma once

#include "job/job.hpp"
#include "record/entry.hpp"

namespace nacre::plugins {

[[nodiscard]] record::JobEntry own_entry(const job::Job& job);

// Adds what takes system calls; to be called once the tasks run. The second time it does nothing.
void complete_entry(record::JobEntry& entry, const job::Job& job);

}  // namespace nacre::plugins
