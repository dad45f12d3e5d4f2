// SPDX-License-Identifier: Apache-2.0
#include "base/program_path.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/variable.hpp"

namespace nacre {

bool is_in_path(std::string_view program) {
  std::string path = own_variable("PATH").value_or("/usr/bin:/bin");
  std::vector<std::string_view> folders = split(path, ':');
  return std::any_of(folders.begin(), folders.end(), [&](std::string_view folder) {
    return ::access(fmt::format("{}/{}", folder.empty() ? "." : folder, program).c_str(), X_OK) == 0;
  });
}

std::string own_program() {
  std::array<char, PATH_MAX> path;  // NOLINT: what is read is written before
  ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size > 0) return std::string(path.data(), static_cast<std::size_t>(size));
  const auto* given = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  bool is_known = given != nullptr && ::realpath(given, path.data()) != nullptr;
  return is_known ? path.data() : "";
}

std::string beside_own_program(std::string_view name) {
  std::string own = own_program();
  return own.substr(0, own.rfind('/') + 1).append(name);
}

}  // namespace nacre
