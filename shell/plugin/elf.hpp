// SPDX-License-Identifier: Apache-2.0
//
// What dlopen(3) would tell badly of an object: it finds "no such file" where the machine is another, and dies of
// SIGBUS where the file is cut off.
#pragma once

#include <string>

#include "base/result.hpp"

namespace nacre::plugin {

// An error that starts with the path if the file is an ELF object of this word size and byte order that is for
// another machine, or has less in it than its program headers say. Anything else is for dlopen to judge.
Result<void> check_object(const std::string& path);

}  // namespace nacre::plugin
