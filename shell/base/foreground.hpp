// SPDX-License-Identifier: Apache-2.0
//
// Who has a terminal.
#pragma once

namespace nacre {

// Whether `fd` is this process's terminal, and another process group has it now: it stops who reads it then.
[[nodiscard]] bool is_in_background(int fd);

}  // namespace nacre
