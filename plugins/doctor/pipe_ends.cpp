// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/pipe_ends.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

// The entries of a folder whose names are numbers.
void for_each_number(const std::string& path, const std::function<void(std::uint64_t)>& use) {
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return;
  while (const dirent* each = ::readdir(folder)) {
    if (auto number = parse_u64(each->d_name)) use(*number);
  }
  ::closedir(folder);
}

// "pos:\t0\nflags:\t02000001\n...", octal. O_RDONLY, O_WRONLY or O_RDWR; -1: unknown.
int mode_of(std::uint64_t pid, std::uint64_t fd) {
  auto text = read_file(fmt::format("/proc/{}/fdinfo/{}", pid, fd));
  if (!text) return -1;
  for (std::string_view line : split(*text, '\n')) {
    constexpr std::string_view kFlags = "flags:";
    if (!line.starts_with(kFlags)) continue;
    std::string digits(trim(line.substr(kFlags.size())));
    return static_cast<int>(std::strtoul(digits.c_str(), nullptr, 8) & O_ACCMODE);
  }
  return -1;
}

}  // namespace

std::map<std::string, PipeEnds> pipe_ends(const std::set<std::string>& links) {
  std::map<std::string, PipeEnds> out;
  if (links.empty()) return out;
  for_each_number("/proc", [&](std::uint64_t pid) {
    std::string folder = fmt::format("/proc/{}/fd", pid);
    for_each_number(folder, [&](std::uint64_t fd) {
      char link[PATH_MAX];
      ssize_t size = ::readlink(fmt::format("{}/{}", folder, fd).c_str(), link, sizeof link);
      if (size <= 0) return;
      auto found = links.find(std::string(link, static_cast<std::size_t>(size)));
      if (found == links.end()) return;
      int mode = mode_of(pid, fd);
      if (mode == O_WRONLY || mode == O_RDWR) out[*found].writers.insert(static_cast<pid_t>(pid));
      if (mode == O_RDONLY || mode == O_RDWR) out[*found].readers.insert(static_cast<pid_t>(pid));
    });
  });
  return out;
}

}  // namespace nacre::plugins
