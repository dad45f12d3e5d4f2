// SPDX-License-Identifier: Apache-2.0
//
// What proc(5) tells of a process that is asked about: what it does just now, and which libraries it has mapped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nacre::plugins {

// "hello sleeps in futex_wait_queue", "hello runs", "gone". A shell that waits for its child is passed over: the
// child is what is of interest.
[[nodiscard]] std::string activity_of(pid_t pid);

// Names of the shared objects that the process has mapped and that start processes of an MPI job, without directories,
// in the order of the alphabet: libmpi*, libmpich*, libpmi*, libpmix*. Empty if it may not be looked at.
[[nodiscard]] std::vector<std::string> mpi_libraries_of(pid_t pid);

// "0-2,5: TEXT" for each TEXT, in the order of the first rank that it is said of.
using Said = std::pair<std::uint32_t, std::string>;  // a rank, and what is said of it
[[nodiscard]] std::vector<std::string> folded(const std::vector<Said>& all);

}  // namespace nacre::plugins
