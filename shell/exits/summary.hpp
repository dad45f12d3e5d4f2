// SPDX-License-Identifier: Apache-2.0
//
// How a job has ended, as JSON: what Host::on_ended() passes on, and a part of the failure report.
#pragma once

#include "base/json_fwd.hpp"
#include "exits/job_end.hpp"

namespace nacre::exits {

// {"exit": {"code": 0..255, "policy": name, "main": rank, "by": why it is this code}, "tasks": {record: ranks (idset)}}, and
// {"cause": message} of a job that was ended before its time. `code` is the job's; `outcomes` has a record of each task.
[[nodiscard]] Json summary(const JobEnd& end, const Outcomes& outcomes, const Policy& policy, int code);

}  // namespace nacre::exits
