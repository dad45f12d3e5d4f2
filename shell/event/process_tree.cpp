// SPDX-License-Identifier: Apache-2.0
#include "event/process_tree.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"

namespace nacre::event {
namespace {

using ByParent = std::unordered_map<pid_t, std::vector<pid_t>>;

std::string proc(pid_t pid) { return "/proc/" + std::to_string(pid); }

// The entries of a folder whose names are numbers; none if there is no such folder.
std::vector<pid_t> numbered(const std::string& path) {
  std::vector<pid_t> out;
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return out;
  while (const dirent* entry = ::readdir(folder)) {
    if (auto number = parse_u64(entry->d_name)) out.push_back(static_cast<pid_t>(*number));
  }
  ::closedir(folder);
  return out;
}

// A zombie: has to be reaped, cannot be signalled. If its first thread has ended, a process still runs in its other
// threads.
bool is_ended(const ProcessStat& stat) { return stat.state == 'Z' && stat.threads <= 1; }

// Reads all of /proc, for a kernel that does not list the children of a thread.
ByParent scan() {
  ByParent out;
  for (pid_t pid : numbered("/proc")) {
    if (auto stat = ProcessStat::of(pid); stat && stat->parent > 0) out[stat->parent].push_back(pid);
  }
  return out;
}

// The kernel lists them by thread.
std::vector<pid_t> listed_children(pid_t pid) {
  std::vector<pid_t> out;
  for (pid_t thread : numbered(proc(pid) + "/task")) {
    Result<std::string> list = read_file(proc(pid) + "/task/" + std::to_string(thread) + "/children");
    if (!list) continue;
    for (std::string_view each : split(*list, ' ')) {
      if (auto child = parse_u64(each)) out.push_back(static_cast<pid_t>(*child));
    }
  }
  return out;
}

}  // namespace

Lookup best_lookup() {
  static const bool is_listed = ::access("/proc/thread-self/children", R_OK) == 0;
  return is_listed ? Lookup::listed : Lookup::scan;
}

std::vector<pid_t> descendants_of(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without) {
  ByParent by_parent = lookup == Lookup::scan ? scan() : ByParent();
  std::vector<pid_t> found{ancestor};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<pid_t> next = lookup == Lookup::scan ? by_parent[found[i]] : listed_children(found[i]);
    std::copy_if(next.begin(), next.end(), std::back_inserter(found),
                 [&](pid_t pid) { return !without.contains(pid); });
  }
  found.erase(found.begin());
  std::erase_if(found, [](pid_t pid) {
    auto stat = ProcessStat::of(pid);
    return !stat || is_ended(*stat);
  });
  return {found.rbegin(), found.rend()};
}

}  // namespace nacre::event
