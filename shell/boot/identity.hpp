// SPDX-License-Identifier: Apache-2.0
//
// This shell's place: which job, which rank of how many, which options and which input it was given.
#pragma once

#include "job/jobspec.hpp"
#include "job/resources.hpp"
#include "value/jobid.hpp"

namespace nacre::boot {

struct Identity {
  value::JobId id;
  std::uint32_t shell_rank = 0;
  job::Jobspec spec;
  job::Resources resources;
  bool standalone = false;
};

// A shell without a manager gets everything from files.
struct Standalone {
  std::string jobspec_path;                  // "-" is standard input
  std::string resources_path;                // the same; at most one of the two
  std::optional<value::JobId> id;            // none: new_job_id()
  std::optional<std::uint32_t> broker_rank;  // none: the lowest of R
};

// Errors name the file: `jobspec.json: resources[0].count: ...`, `R.json: no rank 7: it has ranks 0-3`, `standard
// input: ...`.
Result<Identity> standalone(const Standalone& request);

// A job id that hardly any other shell makes: laid out as a FLUID (RFC 19), 40 bits of milliseconds since 2020, and
// 24 random bits where a FLUID has generator and sequence.
value::JobId new_job_id();

}  // namespace nacre::boot
