// SPDX-License-Identifier: Apache-2.0
#include "base/program_path.hpp"

#include <unistd.h>

#include <algorithm>
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

}  // namespace nacre
