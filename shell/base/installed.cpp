// SPDX-License-Identifier: Apache-2.0
#include "base/installed.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include "base/program_path.hpp"

namespace nacre {

InstalledTree::InstalledTree(const char* program_directory) {
  const std::string program = own_program();
  if (program.empty()) return;
  const std::string path = program.substr(0, program.rfind('/'));
  struct stat of_program {};
  if (path == program_directory) return;
  // The file may have been replaced, or removed, since it was started.
  if (::stat("/proc/self/exe", &of_program) != 0 && ::stat(program.c_str(), &of_program) != 0) return;
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
