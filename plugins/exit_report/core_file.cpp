// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/core_file.hpp"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

constexpr double kClockGrain = 1.0;  // seconds: file systems are less exact than clocks

void append_literally(std::string& glob, std::string_view text) {
  for (char each : text) {
    if (is_glob(std::string_view(&each, 1)) || each == '\\') glob += '\\';
    glob += each;
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

void append_value(std::string& glob, char letter, const Dumped& process) {
  switch (letter) {
    case '%': return append_literally(glob, "%");
    case 'g': return append_literally(glob, std::to_string(::getgid()));
    case 'h': return append_literally(glob, host_name());
    case 'p': return append_literally(glob, std::to_string(process.pid));
    case 's': return append_literally(glob, std::to_string(process.signum));
    case 'u': return append_literally(glob, std::to_string(::getuid()));
    default: glob += '*';  // the time, the thread, the program as it called itself last ...
  }
}

// The newest of those that match and are not older than the process.
std::string newest(const std::string& pattern, double started) {
  glob_t found{};
  std::string out;
  double newest = started - kClockGrain;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat info {};
      if (::stat(found.gl_pathv[i], &info) < 0 || !S_ISREG(info.st_mode)) continue;
      double time = static_cast<double>(info.st_mtim.tv_sec) + static_cast<double>(info.st_mtim.tv_nsec) / 1e9;
      if (time < newest) continue;
      newest = time;
      out = found.gl_pathv[i];
    }
  }
  ::globfree(&found);
  return out;
}

}  // namespace

std::string core_glob(std::string_view pattern, bool uses_pid, const Dumped& process) {
  std::string glob;
  bool has_pid = false;
  if (!pattern.starts_with('/')) append_literally(glob, process.directory + '/');
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      append_literally(glob, pattern.substr(i, 1));
    } else if (++i < pattern.size()) {
      has_pid = has_pid || pattern[i] == 'p';
      append_value(glob, pattern[i], process);
    }
  }
  if (uses_pid && !has_pid) glob += fmt::format(".{}", process.pid);
  return glob;
}

Json core_file(const Dumped& process, const std::string& root) {
  Json out{{"dumped", true}};
  auto text = read_file(root + "/proc/sys/kernel/core_pattern");
  if (!text) return out;
  std::string_view pattern = trim(*text);
  if (pattern.starts_with('|')) {
    pattern.remove_prefix(1);
    out["handler"] = std::string(pattern.substr(0, pattern.find(' ')));
    return out;
  }
  auto uses_pid = read_file(root + "/proc/sys/kernel/core_uses_pid");
  bool has_pid = uses_pid && trim(*uses_pid) == "1";
  std::string file = newest(core_glob(pattern, has_pid, process), process.started);
  if (file.empty())
    out["pattern"] = std::string(pattern);
  else
    out["file"] = std::move(file);
  return out;
}

}  // namespace nacre::plugins
