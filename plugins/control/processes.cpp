// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/processes.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/process_stat.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

std::map<std::int64_t, ProcessStat> all_processes() {
  std::map<std::int64_t, ProcessStat> out;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return out;
  while (const dirent* each = ::readdir(folder)) {
    auto pid = parse_u64(each->d_name);
    if (!pid) continue;
    if (auto stat = ProcessStat::of(static_cast<pid_t>(*pid)))
      out.emplace(static_cast<std::int64_t>(*pid), *std::move(stat));
  }
  ::closedir(folder);
  return out;
}

// The one of `tasks` that a process is, or is below of; 0: none. Numbers are used again, so the way up is bounded.
std::int64_t task_above(const std::map<std::int64_t, ProcessStat>& all, const std::set<std::int64_t>& tasks,
                        std::int64_t pid) {
  constexpr int kMaxDepth = 1024;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (tasks.contains(pid)) return pid;
    auto found = all.find(pid);
    if (found == all.end()) return 0;
    pid = found->second.parent;
  }
  return 0;
}

}  // namespace

Json TaskProcess::json() const { return {rank, pid, state, elapsed, cpu, memory, program}; }

Result<TaskProcess> TaskProcess::parse(const Json& json) {
  constexpr std::size_t kMembers = 7;
  auto at = TRY(JsonAt::root(json).elements());
  if (at.size() != kMembers) return invalid("a process has seven members");
  TaskProcess out;
  out.rank = static_cast<std::uint32_t>(TRY(at[0].integer(0, UINT32_MAX)));
  out.pid = TRY(at[1].integer(1, INT32_MAX));
  out.state = TRY(at[2].string());
  out.elapsed = TRY(at[3].number());
  out.cpu = TRY(at[4].number());
  out.memory = static_cast<std::uint64_t>(TRY(at[5].integer(0)));
  out.program = TRY(at[6].string());
  return out;
}

std::vector<TaskProcess> task_processes(plugin::Host& host) {
  std::set<std::int64_t> pids;
  for (const auto& task : host.tasks()) {
    if (task->state() == task::State::running) pids.insert(task->pid());
  }
  std::vector<TaskProcess> out;
  if (pids.empty()) return out;
  auto all = all_processes();
  auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  double now = seconds_since_boot();
  std::map<std::int64_t, std::size_t> index;
  for (const auto& task : host.tasks()) {
    auto found = all.find(task->pid());
    if (!pids.contains(task->pid()) || found == all.end()) continue;
    index.emplace(task->pid(), out.size());
    const ProcessStat& stat = found->second;
    double elapsed = std::max(0.0, now - static_cast<double>(stat.start) / ticks);
    out.push_back({task->rank(), task->pid(), std::string(1, stat.state), elapsed, 0, 0, stat.name});
  }
  for (const auto& [pid, stat] : all) {
    auto of = index.find(task_above(all, pids, pid));
    if (of == index.end()) continue;
    out[of->second].cpu += static_cast<double>(stat.own_ticks() + stat.children_ticks()) / ticks;
    out[of->second].memory += stat.pages * page;
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

}  // namespace nacre::plugins
