// SPDX-License-Identifier: Apache-2.0
#include "event/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/signals_blocked.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

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

namespace {

std::vector<pid_t> look_for_descendants(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without) {
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

bool has_descriptor_left() {
  UniqueFd file(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return file || (errno != EMFILE && errno != ENFILE);
}

// A thread of the parent may have held a lock that this child waits for.
void end_after(unsigned seconds) {
  ::signal(SIGALRM, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::alarm(seconds);
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// What a child finds, which closes all of its descriptors: memory that both have needs none.
std::vector<pid_t> let_child_look(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without) {
  constexpr std::size_t kMost = std::size_t{64} << 10;  // processes
  constexpr unsigned kMostLook = 10;                    // seconds
  constexpr std::size_t kBytes = (kMost + 1) * sizeof(pid_t);
  void* shared = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {};
  auto* found = static_cast<pid_t*>(shared);  // the first one is how many follow
  SignalsBlocked blocked;
  // Without the handlers of fork(2): libuv's opens a pipe, and ends the process if it cannot.
  pid_t child = ::_Fork();
  if (child == 0) {
    end_after(kMostLook);
    close_from(0);
    raise_descriptor_limit();
    for (pid_t pid : look_for_descendants(ancestor, lookup, without)) {
      if (pid != ::getpid() && static_cast<std::size_t>(found[0]) < kMost) found[++found[0]] = pid;
    }
    ::_exit(0);
  }
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  std::vector<pid_t> out(found + 1, found + 1 + found[0]);
  ::munmap(shared, kBytes);
  return out;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t ancestor, Lookup lookup, const std::set<pid_t>& without) {
  return has_descriptor_left() ? look_for_descendants(ancestor, lookup, without)
                               : let_child_look(ancestor, lookup, without);
}

}  // namespace nacre::event
