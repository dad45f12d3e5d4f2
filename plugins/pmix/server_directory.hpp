// SPDX-License-Identifier: Apache-2.0
//
// The directory of libpmix's files on this node, in that of the job.
#pragma once

#include <string>

#include "flux.hpp"

namespace nacre::pmix {

class ServerDirectory {
 public:
  // Makes it, unless it has been made. Returns 0, or -1 after one line in the log.
  int prepare(flux_shell_t* shell);

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute; "": it has not been made

 private:
  int make(flux_shell_t* shell);

  std::string path_;
};

}  // namespace nacre::pmix
