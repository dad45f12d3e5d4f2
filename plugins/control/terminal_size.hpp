// SPDX-License-Identifier: Apache-2.0
//
// The size of a terminal as front ends and shells send it: {"rows": N, "columns": N}, each from 1 to 65535.
#pragma once

#include <sys/ioctl.h>

#include "base/json.hpp"
#include "base/result.hpp"

namespace nacre::plugins {

[[nodiscard]] Json json_of(const winsize& size);
// Other members are ignored.
Result<winsize> terminal_size_of(const JsonAt& at);

}  // namespace nacre::plugins
