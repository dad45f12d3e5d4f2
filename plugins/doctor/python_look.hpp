// SPDX-License-Identifier: Apache-2.0
//
// The functions of a process that runs Python, from its memory. It is not stopped.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.hpp"
#include "doctor/python_stacks.hpp"

namespace nacre::plugins {

// `program`: the file that it executes. None: there is no interpreter in it. An error says why it cannot be
// read, of one process as of another.
[[nodiscard]] Result<std::optional<doctor::PythonStacks>> python_stacks_of(pid_t pid, const std::string& program);

}  // namespace nacre::plugins
