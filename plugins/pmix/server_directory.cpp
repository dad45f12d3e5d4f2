// SPDX-License-Identifier: Apache-2.0
#include "server_directory.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace nacre::pmix {

int ServerDirectory::prepare(flux_shell_t* shell, std::ptrdiff_t shells_here) {
  if (path_.empty() && make(shell) < 0) return -1;
  return shells_here > 1 ? separate_segments(shell) : 0;
}

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

// Open MPI names its segments of shared memory by host, job and local rank: those of two shells of a host would
// meet.
int ServerDirectory::separate_segments(flux_shell_t* shell) {
  for (const char* name : {"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"}) {
    if (flux_shell_setenvf(shell, 0, name, "%s", path_.c_str()) < 0 && errno != EEXIST)
      return shell_log_errno("%s", name);
  }
  return 0;
}

}  // namespace nacre::pmix
