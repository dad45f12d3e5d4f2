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

// With what the shell knows of them itself.
std::vector<TaskProcess> tasks_that_run(plugin::Host& host, const std::map<std::uint32_t, usage::TaskGpu>& gpus) {
  std::vector<TaskProcess> out;
  for (const auto& task : host.tasks()) {
    if (task->state() != task::State::running) continue;
    TaskProcess& added = out.emplace_back();
    added.rank = task->rank();
    added.pid = task->pid();
    if (auto gpu = gpus.find(task->rank()); gpu != gpus.end()) added.gpu = gpu->second;
  }
  return out;
}

Result<TaskProcess> parse_spawned(const JsonAt& at, std::uint32_t shell) {
  TaskProcess out;
  out.rank = static_cast<std::uint32_t>(TRY(TRY(at.at("rank")).integer(0, UINT32_MAX)));
  out.pid = TRY(TRY(at.at("pid")).integer(1, INT32_MAX));
  out.origin.emplace();
  out.origin->spawn = static_cast<std::uint64_t>(TRY(TRY(at.at("spawn")).integer(1)));
  out.origin->task = static_cast<std::uint32_t>(TRY(TRY(at.at("task")).integer(0, UINT32_MAX)));
  out.origin->shell = shell;
  return out;
}

Result<std::vector<TaskProcess>> spawned_that_run(plugin::Host& host) {
  plugin::Call call("pmi.processes");
  TRY(host.stack().call(call));
  std::vector<TaskProcess> out;
  auto processes = TRY(JsonAt::root(call.out, call.topic).find("processes"));
  if (!processes) return out;
  for (const JsonAt& each : TRY(processes->elements()))
    out.push_back(TRY(parse_spawned(each, host.job().shell_rank)));
  return out;
}

}  // namespace

Json TaskProcess::json() const {
  Json out{rank, pid, state, elapsed, cpu, memory, program};
  if (origin) out.push_back(Json::array({origin->spawn, origin->task, origin->shell}));
  if (!gpu) return out;
  out.push_back(gpu->memory ? Json(*gpu->memory) : Json());
  out.push_back(gpu->device_use ? Json(*gpu->device_use) : Json());
  return out;
}

Result<TaskProcess> TaskProcess::parse(const Json& json) {
  constexpr std::size_t kMembers = 7;
  constexpr std::size_t kWithOrigin = 8;
  constexpr std::size_t kWithGpu = 9;
  auto at = TRY(JsonAt::root(json).elements());
  if (at.size() < kMembers || at.size() > kWithGpu) return invalid("a process has seven to nine members");
  TaskProcess out;
  out.rank = static_cast<std::uint32_t>(TRY(at[0].integer(0, UINT32_MAX)));
  out.pid = TRY(at[1].integer(1, INT32_MAX));
  out.state = TRY(at[2].string());
  out.elapsed = TRY(at[3].number());
  out.cpu = TRY(at[4].number());
  out.memory = static_cast<std::uint64_t>(TRY(at[5].integer(0)));
  out.program = TRY(at[6].string());
  if (at.size() == kWithOrigin) {
    auto origin = TRY(at[7].elements());
    if (origin.size() != 3) return at[7].expected("spawn, task and shell");
    out.origin = {static_cast<std::uint64_t>(TRY(origin[0].integer(1))),
                  static_cast<std::uint32_t>(TRY(origin[1].integer(0, UINT32_MAX))),
                  static_cast<std::uint32_t>(TRY(origin[2].integer(0, UINT32_MAX)))};
  }
  if (at.size() != kWithGpu) return out;
  out.gpu.emplace();
  if (!at[7].json().is_null()) out.gpu->memory = static_cast<std::uint64_t>(TRY(at[7].integer(0)));
  if (!at[8].json().is_null()) out.gpu->device_use = TRY(at[8].number());
  return out;
}

bool operator<(const TaskProcess& a, const TaskProcess& b) {
  auto spawn_of = [](const TaskProcess& each) { return each.origin ? each.origin->spawn : 0; };
  return std::pair(spawn_of(a), a.rank) < std::pair(spawn_of(b), b.rank);
}

std::vector<TaskProcess> task_processes(plugin::Host& host, const std::map<std::uint32_t, usage::TaskGpu>& gpus) {
  std::vector<TaskProcess> wanted = tasks_that_run(host, gpus);
  if (auto spawned = spawned_that_run(host)) {
    wanted.insert(wanted.end(), spawned->begin(), spawned->end());
  } else {
    host.log().log(Level::warn, "control", "{}", spawned.error().message);
  }
  std::vector<TaskProcess> out;
  if (wanted.empty()) return out;
  std::set<std::int64_t> pids;
  for (const TaskProcess& each : wanted) pids.insert(each.pid);
  auto all = all_processes();
  auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  double now = seconds_since_boot();
  std::map<std::int64_t, std::size_t> index;
  for (TaskProcess& each : wanted) {
    const ProcessStat* stat = find_process(all, each.pid);
    if (stat == nullptr) continue;
    index.emplace(each.pid, out.size());
    each.state = std::string(1, stat->state);
    each.elapsed = std::max(0.0, now - static_cast<double>(stat->start) / ticks);
    each.program = stat->name;
    out.push_back(std::move(each));
  }
  for (const auto& [pid, stat] : all) {
    auto of = index.find(task_above(all, pids, pid));
    if (of == index.end()) continue;
    out[of->second].cpu += static_cast<double>(stat.own_ticks() + stat.children_ticks()) / ticks;
    out[of->second].memory += stat.pages * page;
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace nacre::plugins
