// SPDX-License-Identifier: Apache-2.0
//
// The keys of a manager with a PMIx server: PRRTE, Open MPI's mpirun, Slurm's mpi/pmix. libpmix is opened only when
// it is needed: it would cost other jobs many milliseconds and 17 MB.
#pragma once

#include "boot/boot.hpp"

namespace nacre::boot {

// Sends init to the server that the environment names; the library has threads until finish(). It waits as long as
// the manager does, without a limit of our own. ENOENT: the library cannot be loaded, or nacre was built without
// its headers. `library` is its soname; tests give another to see the error when it is missing.
Result<std::unique_ptr<Keys>> open_pmix_keys(const char* library = "libpmix.so.2");

}  // namespace nacre::boot
