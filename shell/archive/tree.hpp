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
  std::string path;     // in the form of clean_path()
  struct stat info {};  // of the file itself, not of a link's target
};

// Calls `visit` for each of `paths`, which are below the directory that `base` is open for, and for all that is
// below those: a directory first, then its content by name. "" is `base` itself, which is not visited. Symbolic
// links are not followed. Errors name the path.
Result<void> walk(int base, const std::vector<std::string>& paths,
                  const std::function<Result<void>(const Found&)>& visit);

}  // namespace nacre::archive
