// SPDX-License-Identifier: Apache-2.0
//
// What proc(5) has about a process: what it does now, and which libraries it has mapped.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nacre::plugins {

// "hello sleeps in futex_wait_queue", "hello runs", "gone". If a shell waits for its child, the child is reported.
[[nodiscard]] std::string activity_of(pid_t pid);

// The names of the shared objects with which processes of an MPI job start and that the process has mapped, without
// directories, in alphabetical order: libmpi*, libmpich*, libpmi*, libpmix*. Empty if this may not be read.
[[nodiscard]] std::vector<std::string> mpi_libraries_of(pid_t pid);

// "0-2,5: TEXT" for each TEXT, in the order of the first rank that has it.
using Said = std::pair<std::uint32_t, std::string>;  // a rank, and its text
[[nodiscard]] std::vector<std::string> folded(const std::vector<Said>& all);

}  // namespace nacre::plugins
