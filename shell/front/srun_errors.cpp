// SPDX-License-Identifier: Apache-2.0
#include "front/srun_errors.hpp"

#include <algorithm>
#include <cstdlib>

namespace nacre::front {
namespace {

constexpr std::string_view kError = "srun: error: ";

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// "srun: error: HOSTS: task N: HOW" or "srun: error: HOSTS: tasks N-M,...: HOW"
bool reports_an_end(std::string_view line) {
  if (!take_front(line, kError)) return false;
  std::size_t hosts = line.find(": ");
  if (hosts == 0 || hosts == std::string_view::npos || line.find(' ') < hosts) return false;
  line.remove_prefix(hosts);
  if (!take_front(line, ": task ") && !take_front(line, ": tasks ")) return false;
  std::size_t tasks = line.find_first_not_of("0123456789,-");
  return tasks != 0 && tasks != std::string_view::npos && line.substr(tasks).starts_with(": ");
}

}  // namespace

bool SrunErrors::take(std::string_view bytes) {
  bool reported = false;
  while (!bytes.empty()) {
    std::size_t end = std::min(bytes.find('\n'), bytes.size());
    line_.append(bytes.substr(0, std::min(end, kMaxLine - line_.size())));
    if (end == bytes.size()) break;
    reported = reports_an_end(line_) || reported;
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  return reported;
}

bool labels_lines(const std::vector<std::string>& arguments) {
  if (std::getenv("SLURM_LABELIO") != nullptr) return true;
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& each) { return each == "-l" || each == "--label"; });
}

}  // namespace nacre::front
