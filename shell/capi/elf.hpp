// SPDX-License-Identifier: Apache-2.0
//
// What is to be known of an object or a program without loading it. Of what dlopen(3) tells badly: it finds "no such file"
// where the machine is another, and dies of SIGBUS where the file is cut off.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace nacre::capi {

// An error that starts with the path if the file is an ELF object of this word size and byte order that is for
// another machine, or has less in it than its program headers say. Anything else is for dlopen to judge.
Result<void> check_object(const std::string& path);

// The names of the shared libraries that the file itself needs (DT_NEEDED), without those that these need in turn. Empty
// if it is no dynamic ELF file of this word size and byte order, or cannot be read.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace nacre::capi
