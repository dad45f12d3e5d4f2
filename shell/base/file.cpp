// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/unique_fd.hpp"

namespace nacre {

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  if (path == "-") return read_file(STDIN_FILENO, path, limit);
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return system_error(errno, path);
  return read_file(opened.get(), path, limit);
}

Result<std::string> read_file(int fd, const std::string& name, std::size_t limit) {
  struct stat info {};
  std::string text;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) text.reserve(static_cast<std::size_t>(info.st_size) + 1);
  std::size_t used = 0;
  for (;;) {
    if (used > limit) return Error{EFBIG, fmt::format("{}: larger than the limit of {} bytes", name, limit)};
    std::size_t room = std::max<std::size_t>(text.capacity() - used, 4096);
    text.resize(used + room);
    ssize_t got = ::read(fd, text.data() + used, room);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, name);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  text.resize(used);
  return text;
}

int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int write_all_at(int fd, std::string_view text, std::uint64_t offset) {
  while (!text.empty()) {
    ssize_t written = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return 0;
}

Result<void> check_replaceable(const std::string& path) {
  struct stat info {};
  bool is_there = ::lstat(path.c_str(), &info) == 0;
  if (is_there && S_ISDIR(info.st_mode)) return system_error(EISDIR, path);
  if (is_there && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
    return ::access(path.c_str(), W_OK) == 0 ? Result<void>() : system_error(errno, path);
  std::size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return ::access(directory.c_str(), W_OK | X_OK) == 0 ? Result<void>() : system_error(errno, path);
}

bool has_no_writer(int fd) {
  pollfd state{fd, 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & POLLHUP) != 0;
}

bool is_null(int fd) {
  constexpr unsigned kMemory = 1;  // null(4)
  constexpr unsigned kNull = 3;
  struct stat info {};
  if (::fstat(fd, &info) < 0) return true;
  return S_ISCHR(info.st_mode) && info.st_rdev == makedev(kMemory, kNull);
}

}  // namespace nacre
