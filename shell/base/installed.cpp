// SPDX-License-Identifier: Apache-2.0
#include "base/installed.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>

namespace nacre {

std::string installed_path(std::initializer_list<const char*> relative, const char* absolute) {
  std::array<char, PATH_MAX> program{};
  ssize_t size = ::readlink("/proc/self/exe", program.data(), program.size());
  if (size <= 0) return absolute;
  struct stat of_program {};
  if (::stat("/proc/self/exe", &of_program) != 0) return absolute;
  std::filesystem::path directory = std::filesystem::path(program.data(), program.data() + size).parent_path();
  for (const char* each : relative) {
    std::string path = (directory / each).lexically_normal();
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) continue;
    // What others could have put there counts for nothing.
    if (found.st_uid == of_program.st_uid || found.st_uid == 0) return path;
  }
  return absolute;
}

}  // namespace nacre
