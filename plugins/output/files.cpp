// SPDX-License-Identifier: Apache-2.0
#include "plugins/output/files.hpp"

#include <fcntl.h>

#include <filesystem>

#include <fmt/format.h>

#include "plugin/tags.hpp"

namespace nacre::plugins {

Result<std::string> output_path(plugin::Host& host, const std::string& text, const task::Task* task) {
  return plugin::render_tags(host, text, {std::nullopt, task});
}

UniqueFd open_to_append(const std::string& path, bool empties) {
  constexpr mode_t kMode = 0666;  // less the umask
  int flags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (empties ? O_TRUNC : 0);
  return UniqueFd(::open(path.c_str(), flags, kMode));
}

Result<UniqueFd> OutputFiles::open(const std::string& path) {
  bool again = opened_[path]++ > 0;
  UniqueFd fd = open_to_append(path, !again && !append_);
  if (!fd && errno == ENOENT && makes_directories_) {
    std::error_code failed;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
    if (failed) return system_error(failed.value(), path + ": its directory cannot be made");
    fd = open_to_append(path, !again && !append_);
  }
  if (fd) return fd;
  switch (errno) {
    case ENXIO: return Error{ENXIO, path + ": a FIFO that nobody reads; start its reader first"};
    case ENOENT:
      return Error{ENOENT, path + ": its directory is not there; make it first, or give -o output.mkdir"};
    default: return system_error(errno, path);
  }
}

Result<void> make_blocking(int fd, const std::string& what) {
  int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0) return system_error(errno, what);
  return {};
}

}  // namespace nacre::plugins
