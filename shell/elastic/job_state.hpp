// SPDX-License-Identifier: Apache-2.0
//
// What a job has come to by now, for a shell that joins it: the moves of its tasks, their starts, the restarts.
#pragma once

#include "base/json.hpp"
#include "job/job.hpp"

namespace nacre::elastic {

// {"moves": [[RANKS, FROM, TO, TRY], ...], "starts": [[RANK, TRY], ...], "restarts": N}
[[nodiscard]] Json job_state(const job::Job& job);
// Notes it in `job`, in which nothing of that has been noted yet. Errors name the place.
Result<void> take_job_state(const JsonAt& at, job::Job& job);

}  // namespace nacre::elastic
