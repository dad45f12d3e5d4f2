// SPDX-License-Identifier: Apache-2.0
//
// How a job has ended, as JSON: what Host::on_ended() passes on, and a part of the failure report.
#pragma once

#include "base/json_fwd.hpp"
#include "exits/job_end.hpp"

namespace nacre::exits {

// {"exit": {"code": 0..255, "policy": name, "main": rank, "by": why it is this code}, "tasks": {record: ranks
// (idset)}}, and {"cause": message} of a job that was ended before its time. `code` is the job's; `outcomes` has a
// record of each task. And what another policy would have to know: {"rule": {"main": rank}}, with "ok": codes of
// success (idset), where there are any, "first": the record of the first failure, "least": 1 where each policy's
// code would be at least 1, and "fixed": true where it would be `code`.
[[nodiscard]] Json summary(const JobEnd& end, const Outcomes& outcomes, const Policy& policy, int code);

}  // namespace nacre::exits
