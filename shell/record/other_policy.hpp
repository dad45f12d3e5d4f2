// SPDX-License-Identifier: Apache-2.0
//
// The exit code that a job which has ended would have by another policy.
#pragma once

#include "base/result.hpp"
#include "exits/policy.hpp"
#include "record/entry.hpp"

namespace nacre::record {

// 0..255. EINVAL: the entry does not tell; the message says why.
Result<int> code_by(exits::Policy::Kind kind, const EntryEnd& end);

}  // namespace nacre::record
