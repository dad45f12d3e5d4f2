// SPDX-License-Identifier: Apache-2.0
#include "front/whole_file.hpp"

#include <fcntl.h>

#include <cerrno>

#include "base/file.hpp"
#include "base/unique_fd.hpp"

namespace nacre::front {

Result<void> write_whole_file(const std::string& path, std::string_view text) {
  constexpr mode_t kMode = 0666;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!fd) return system_error(errno, path);
  if (int failed = write_all(fd.get(), text); failed != 0) return system_error(failed, path);
  return {};
}

}  // namespace nacre::front
