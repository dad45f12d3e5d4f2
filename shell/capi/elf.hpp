// SPDX-License-Identifier: Apache-2.0
//
// Facts about an object or a program, found without loading it. In two cases dlopen(3) is of no help: for another
// machine it reports "no such file", and for a file that is cut off it dies of SIGBUS.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace nacre::capi {

// An error, starting with the path, if the file is an ELF object of this word size and byte order that is for
// another machine, or that is shorter than its program headers demand. dlopen has to judge all other files.
Result<void> check_object(const std::string& path);

// The names of the shared libraries that the file itself needs (DT_NEEDED), without those that these need. Empty if
// the file is no dynamic ELF file of this word size and byte order, or cannot be read.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace nacre::capi
