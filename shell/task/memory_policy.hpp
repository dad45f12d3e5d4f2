// SPDX-License-Identifier: Apache-2.0
//
// Memory policies, which say on which NUMA nodes a process gets its memory: see set_mempolicy(2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "task/command.hpp"
#include "value/idset.hpp"

namespace nacre::task {

// `name`: bind (memory of these nodes only), prefer (of others when these are full) or interleave (page by page of
// each). None for other names. `nodes`: not empty. To prefer several nodes needs Linux 5.15; older kernels refuse.
[[nodiscard]] std::optional<MemoryPolicy> memory_policy(std::string_view name, const value::Idset& nodes);

// "bind 0-1".
[[nodiscard]] std::string memory_policy_text(const MemoryPolicy& policy);

}  // namespace nacre::task
