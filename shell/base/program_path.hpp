// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace nacre {

// Whether a program of this name is in the PATH of this process; /usr/bin and /bin if it has none.
[[nodiscard]] bool is_in_path(std::string_view program);

// The file of the program that runs; "" if it is not known. Without /proc it is the one that execve(2) was given: a
// relative one is looked up in the working directory.
[[nodiscard]] std::string own_program();
// A program of this name beside that one, whether it is there or not; only the name if that one is not known.
[[nodiscard]] std::string beside_own_program(std::string_view name);

}  // namespace nacre
