// SPDX-License-Identifier: Apache-2.0
//
// What the resources of a jobspec mean for a shell; see jobspec.hpp for what is read.
#pragma once

#include <string>

#include "base/json.hpp"
#include "base/result.hpp"
#include "job/jobspec.hpp"
#include "job/resources.hpp"

namespace nacre::job {

// Reads them into the requested resources of `spec`; returns the label of the slot. A count that is a range is its
// least until settle_counts().
Result<std::string> read_resources(const JsonAt& resources, Jobspec& spec);

// Chooses the counts that the jobspec leaves open: as many nodes, and slots, as R has. An error if it does not ask
// for that many.
Result<void> settle_counts(const Resources& resources, Jobspec& spec);

}  // namespace nacre::job
