// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

namespace nacre {

Result<Pipe> make_pipe(int flags) {
  int fds[2];
  if (::pipe2(fds, flags) < 0) return system_error(errno, "pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

void close_from(unsigned first) {
  if (::syscall(SYS_close_range, first, UINT_MAX, 0U) == 0) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (unsigned fd = first; fd < std::min<rlim_t>(limit.rlim_cur, INT_MAX); ++fd) ::close(static_cast<int>(fd));
}

}  // namespace nacre
