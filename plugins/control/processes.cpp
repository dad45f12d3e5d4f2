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

using Process = std::pair<std::int64_t, ProcessStat>;

// In the order of their numbers.
std::vector<Process> all_processes() {
  std::vector<Process> out;
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return out;
  while (const dirent* each = ::readdir(folder)) {
    auto pid = parse_u64(each->d_name);
    if (!pid) continue;
    if (auto stat = ProcessStat::of(static_cast<pid_t>(*pid)))
      out.emplace_back(static_cast<std::int64_t>(*pid), *std::move(stat));
  }
  ::closedir(folder);
  auto by_number = [](const Process& a, const Process& b) { return a.first < b.first; };
  std::sort(out.begin(), out.end(), by_number);
  return out;
}

// Null: there is none.
const ProcessStat* find_process(const std::vector<Process>& all, std::int64_t pid) {
  auto found = std::lower_bound(all.begin(), all.end(), pid,
                                [](const Process& each, std::int64_t wanted) { return each.first < wanted; });
  return found != all.end() && found->first == pid ? &found->second : nullptr;
}

// The one of `tasks` that a process is, or is below of; 0: none. Numbers are used again, so the way up is bounded.
std::int64_t task_above(const std::vector<Process>& all, const std::set<std::int64_t>& tasks, std::int64_t pid) {
  constexpr int kMaxDepth = 1024;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    if (tasks.contains(pid)) return pid;
    const ProcessStat* process = find_process(all, pid);
    if (process == nullptr) return 0;
    pid = process->parent;
  }
  return 0;
}

}  // namespace

Json TaskProcess::json() const {
  Json out{rank, pid, state, elapsed, cpu, memory, program};
  if (!gpu) return out;
  out.push_back(gpu->memory ? Json(*gpu->memory) : Json());
  out.push_back(gpu->device_use ? Json(*gpu->device_use) : Json());
  return out;
}

Result<TaskProcess> TaskProcess::parse(const Json& json) {
  constexpr std::size_t kMembers = 7;
  constexpr std::size_t kWithGpu = 9;
  auto at = TRY(JsonAt::root(json).elements());
  if (at.size() != kMembers && at.size() != kWithGpu) return invalid("a process has seven members, or nine");
  TaskProcess out;
  out.rank = static_cast<std::uint32_t>(TRY(at[0].integer(0, UINT32_MAX)));
  out.pid = TRY(at[1].integer(1, INT32_MAX));
  out.state = TRY(at[2].string());
  out.elapsed = TRY(at[3].number());
  out.cpu = TRY(at[4].number());
  out.memory = static_cast<std::uint64_t>(TRY(at[5].integer(0)));
  out.program = TRY(at[6].string());
  if (at.size() != kWithGpu) return out;
  out.gpu.emplace();
  if (!at[7].json().is_null()) out.gpu->memory = static_cast<std::uint64_t>(TRY(at[7].integer(0)));
  if (!at[8].json().is_null()) out.gpu->device_use = TRY(at[8].number());
  return out;
}

std::vector<TaskProcess> task_processes(plugin::Host& host, const std::map<std::uint32_t, usage::TaskGpu>& gpus) {
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
    const ProcessStat* stat = pids.contains(task->pid()) ? find_process(all, task->pid()) : nullptr;
    if (stat == nullptr) continue;
    index.emplace(task->pid(), out.size());
    double elapsed = std::max(0.0, now - static_cast<double>(stat->start) / ticks);
    out.push_back({task->rank(), task->pid(), std::string(1, stat->state), elapsed, 0, 0, stat->name, {}});
    if (auto gpu = gpus.find(task->rank()); gpu != gpus.end()) out.back().gpu = gpu->second;
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
