// SPDX-License-Identifier: Apache-2.0
//
// Where what is installed with the program is: by the place of the program itself, so that a tree that was moved,
// or unpacked elsewhere, works as it is.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <string>

namespace nacre {

class InstalledTree {
 public:
  // Of the program that runs. `program_directory`: where the build has meant it to be; if it is there, nothing is
  // looked for.
  explicit InstalledTree(const char* program_directory);

  // The first of the `relative` paths, from the directory of the program, that exists and belongs to the program's
  // owner, or to root; else `absolute`, where the build has meant it to be.
  [[nodiscard]] std::string path(std::initializer_list<const char*> relative, const char* absolute) const;

 private:
  std::string directory_;  // empty: nothing is looked for
  uid_t owner_ = 0;
};

}  // namespace nacre
