// SPDX-License-Identifier: Apache-2.0
#include "base/installed.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>
#include <string_view>

namespace nacre {

InstalledTree::InstalledTree(const char* program_directory) {
  std::array<char, PATH_MAX> program{};
  ssize_t size = ::readlink("/proc/self/exe", program.data(), program.size());
  if (size <= 0) return;
  std::string_view path(program.data(), static_cast<std::size_t>(size));
  path = path.substr(0, path.rfind('/'));
  struct stat of_program {};
  if (path == program_directory || ::stat("/proc/self/exe", &of_program) != 0) return;
  directory_ = path;
  owner_ = of_program.st_uid;
}

std::string InstalledTree::path(std::initializer_list<const char*> relative, const char* absolute) const {
  if (directory_.empty()) return absolute;
  for (const char* each : relative) {
    std::string path = (std::filesystem::path(directory_) / each).lexically_normal();
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) continue;
    // What others could have put there counts for nothing.
    if (found.st_uid == owner_ || found.st_uid == 0) return path;
  }
  return absolute;
}

}  // namespace nacre
