// SPDX-License-Identifier: Apache-2.0
//
// The module that a process crashed in, by its core dump. elfutils' libdw reads it, where it was there when nacre
// was built; it is loaded when there is a core dump to look at, so that jobs without do not pay for it.
#pragma once

#include <string>

namespace nacre::plugins {

// The file of the program or library that has the address at which the thread stood that got the signal. "" if that
// cannot be found.
[[nodiscard]] std::string core_module(const std::string& core);

}  // namespace nacre::plugins
