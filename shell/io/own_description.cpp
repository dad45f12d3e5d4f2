// SPDX-License-Identifier: Apache-2.0
#include "io/own_description.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include <fmt/format.h>

namespace nacre::io {

UniqueFd reopen(int fd, int flags) {
  return UniqueFd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), flags | O_NOCTTY | O_CLOEXEC));
}

Result<OwnDescription> OwnDescription::of(int fd, int access, const std::string& name) {
  struct stat info {};
  if (::fstat(fd, &info) < 0) return system_error(errno, name);
  if (!S_ISSOCK(info.st_mode)) {
    if (UniqueFd own = reopen(fd, access | O_NONBLOCK); own) return OwnDescription(std::move(own), std::nullopt);
  }
  int flags = ::fcntl(fd, F_GETFL);
  UniqueFd shared(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (flags < 0 || !shared || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return system_error(errno, name);
  bool changed = (flags & O_NONBLOCK) == 0;
  return OwnDescription(std::move(shared), changed ? std::optional(flags) : std::nullopt);
}

OwnDescription::~OwnDescription() {
  if (fd_ && shared_flags_) ::fcntl(fd_.get(), F_SETFL, *shared_flags_);
}

}  // namespace nacre::io
