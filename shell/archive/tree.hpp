// SPDX-License-Identifier: Apache-2.0
//
// The files of a tree, in an order that is the same each time.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace nacre::archive {

struct Found {
  std::string path;     // as clean_path() gives it
  struct stat info {};  // of itself, not of what a link leads to
};

// Calls `visit` for each of `paths`, which are below the directory that `base` is open for, and for all that is
// below those: a directory first, then what is in it by name. "" is `base` itself, which is not visited. Symbolic
// links are not followed. Errors name the path.
Result<void> walk(int base, const std::vector<std::string>& paths,
                  const std::function<Result<void>(const Found&)>& visit);

}  // namespace nacre::archive
