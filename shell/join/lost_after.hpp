// SPDX-License-Identifier: Apache-2.0
//
// The option `lost-after`: how long another shell may be silent before it counts as lost.
#pragma once

#include "base/result.hpp"
#include "group/group.hpp"
#include "job/options.hpp"

namespace nacre::join {

Result<void> set_lost_after(group::Group& group, const job::Options& options);

}  // namespace nacre::join
