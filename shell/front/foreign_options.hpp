// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "cli/command_line.hpp"

namespace nacre::front {

// The options of srun, mpiexec, mpirun, flux run and torchrun that `nacre run` takes, or says another word for; see
// nacre-run(1).
[[nodiscard]] std::span<const cli::ForeignOption> foreign_options();

}  // namespace nacre::front
