// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.hpp"

#include <fcntl.h>

namespace nacre {

Result<Pipe> make_pipe(int flags) {
  int fds[2];
  if (::pipe2(fds, flags) < 0) {
    int code = errno;
    if (code == EMFILE) return system_error(code, "pipe (raise the limit with ulimit -n)");
    if (code == ENFILE) return system_error(code, "pipe (raise fs.file-max)");
    return system_error(code, "pipe");
  }
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace nacre
