// SPDX-License-Identifier: Apache-2.0
//
// The made-up machine that the job's nodes are taken for (`nacre run --pretend`): placements are made for it, and
// shown by --explain, but nothing of the tasks is bound, as this machine is another one.
#pragma once

#include <optional>

#include "base/result.hpp"
#include "job/machine_shape.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// None: the nodes are what they are.
[[nodiscard]] Result<std::optional<job::MachineShape>> pretended_machine(const job::Options& options);

}  // namespace nacre::plugins
