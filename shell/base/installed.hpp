// SPDX-License-Identifier: Apache-2.0
//
// Where what is installed with the program is: by the place of the program itself, so that a tree that was moved, or unpacked
// elsewhere, works as it is.
#pragma once

#include <initializer_list>
#include <string>

namespace nacre {

// The first of the `relative` paths, from the directory of the running program, that exists and belongs to who owns the
// program, or to root; else `absolute`, where the build has meant it to be.
[[nodiscard]] std::string installed_path(std::initializer_list<const char*> relative, const char* absolute);

}  // namespace nacre
