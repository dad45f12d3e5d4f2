// SPDX-License-Identifier: Apache-2.0
//
// A file that a verb writes as a whole.
#pragma once

#include "base/result.hpp"

namespace nacre::front {

// Makes it, with mode 0666 less the umask, or writes over one that is there. Errors name it.
Result<void> write_whole_file(const std::string& path, std::string_view text);

}  // namespace nacre::front
