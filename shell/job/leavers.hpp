// SPDX-License-Identifier: Apache-2.0
//
// Which shells are to leave when a job is ordered to shrink.
#pragma once

#include "job/job.hpp"
#include "value/shrunk.hpp"

namespace nacre::job {

// `gone`: shells that are not of the job any more. `leaving`: those that are about to leave; by count none of them
// is chosen. EINVAL: no such shell, host, or so many; all of them have gone; shell 0 is one of them. EBUSY: they
// have tasks, and the order refuses these.
Result<value::Idset> leavers(const value::ShrinkOrder& order, const Job& job, const value::Idset& gone,
                             const value::Idset& leaving);

// The hosts of these shells that have a name.
[[nodiscard]] value::Hostlist hosts_of(const value::Idset& shells, const Job& job);

}  // namespace nacre::job
