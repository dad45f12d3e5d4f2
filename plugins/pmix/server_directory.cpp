// SPDX-License-Identifier: Apache-2.0
#include "server_directory.hpp"

#include <sys/stat.h>

#include <utility>

namespace nacre::pmix {

int ServerDirectory::prepare(flux_shell_t* shell) { return path_.empty() ? make(shell) : 0; }

int ServerDirectory::make(flux_shell_t* shell) {
  const char* below = flux_shell_getenv(shell, "FLUX_JOB_TMPDIR");
  if (below == nullptr) {
    shell_log_error("the job has no FLUX_JOB_TMPDIR for libpmix's files: leave the builtin plugin tmpdir in place");
    return -1;
  }
  std::string path = std::string(below) + "/pmix";
  if (::mkdir(path.c_str(), 0700) < 0) return shell_log_errno("%s", path.c_str());
  path_ = std::move(path);
  return 0;
}

}  // namespace nacre::pmix
