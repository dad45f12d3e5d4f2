// SPDX-License-Identifier: Apache-2.0
#include "front/srun_errors.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "value/wait_status.hpp"

namespace nacre::front {
namespace {

constexpr std::string_view kError = "srun: error: ";

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// HOW of "srun: error: HOSTS: task N: HOW" or "srun: error: HOSTS: tasks N-M,...: HOW"; "": it is no such line.
std::string_view how_of_end(std::string_view line) {
  if (!take_front(line, kError)) return "";
  std::size_t hosts = line.find(": ");
  if (hosts == 0 || hosts == std::string_view::npos || line.find(' ') < hosts) return "";
  line.remove_prefix(hosts);
  if (!take_front(line, ": task ") && !take_front(line, ": tasks ")) return "";
  std::size_t tasks = line.find_first_not_of("0123456789,-");
  if (tasks == 0 || tasks == std::string_view::npos) return "";
  line.remove_prefix(tasks);
  return take_front(line, ": ") ? line : "";
}

// How one ends that a signal has ended, or that has handled it: strsignal(3)'s words, or an exit code.
std::optional<int> signal_of(std::string_view how) {
  for (int signum : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    std::string_view name = ::sigdescr_np(signum);
    if (how == name || how == fmt::format("{} (core dumped)", name) ||
        how == fmt::format("Exited with exit code {}", value::kSignalBase + signum))
      return signum;
  }
  return std::nullopt;
}

}  // namespace

bool SrunErrors::take(std::string_view bytes) {
  bool reported = false;
  while (!bytes.empty()) {
    std::size_t end = std::min(bytes.find('\n'), bytes.size());
    line_.append(bytes.substr(0, std::min(end, kMaxLine - line_.size())));
    if (end == bytes.size()) break;
    std::string_view how = how_of_end(line_);
    reported = reported || !how.empty();
    if (!signal_) signal_ = signal_of(how);
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
