// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <sys/syscall.h>

namespace nacre {

Result<Pipe> make_pipe(int flags) {
  int fds[2];
  if (::pipe2(fds, flags) < 0) return system_error(errno, "pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

void reserve_descriptors(rlim_t count) {
  static rlim_t reserved = 0;
  rlimit limit{};
  if (count <= reserved || ::getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  reserved = count;
  const rlim_t most = std::min({count, limit.rlim_max, rlim_t{INT_MAX}});
  const rlimit raised{most, limit.rlim_max};
  const bool is_raised = most > limit.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) == 0;
  UniqueFd last(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, static_cast<int>(most - 1)));
  if (is_raised) ::setrlimit(RLIMIT_NOFILE, &limit);
}

void close_from(unsigned first) {
  if (::syscall(SYS_close_range, first, UINT_MAX, 0U) == 0) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (unsigned fd = first; fd < std::min<rlim_t>(limit.rlim_cur, INT_MAX); ++fd) ::close(static_cast<int>(fd));
}

}  // namespace nacre
