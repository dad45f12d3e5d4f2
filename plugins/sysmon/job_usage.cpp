// SPDX-License-Identifier: Apache-2.0
#include "plugins/sysmon/job_usage.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

namespace fs = std::filesystem;

// Seconds, from cpu.stat (version 2) or cpuacct.usage.
Result<double> read_cpu(const std::string& path) {
  if (path.ends_with("cpu.stat"))
    return static_cast<double>(TRY(task::read_keyed_number(path, "usage_usec "))) / 1e6;
  return static_cast<double>(TRY(task::read_number(path))) / 1e9;
}

bool readable(const std::string& path) { return task::read_number(path).has_value(); }

}  // namespace

JobUsage JobUsage::of_shell(pid_t shell, const std::string& root) {
  JobUsage usage(shell, root);
  if (auto cgroups = task::Cgroups::of_process(shell, root)) {
    usage.find_memory(*cgroups);
    usage.find_cpu(*cgroups);
  }
  return usage;
}

void JobUsage::find_memory(const task::Cgroups& cgroups) {
  bool old = cgroups.has("memory");
  std::string directory = own_cgroup(cgroups, "memory");
  if (directory.empty()) return;
  std::string current = directory + (old ? "/memory.usage_in_bytes" : "/memory.current");
  std::string peak = directory + (old ? "/memory.max_usage_in_bytes" : "/memory.peak");
  if (!readable(current)) return;
  memory_file_ = std::move(current);
  if (readable(peak)) peak_file_ = std::move(peak);
}

void JobUsage::find_cpu(const task::Cgroups& cgroups) {
  bool old = cgroups.has("cpuacct");
  std::string directory = own_cgroup(cgroups, "cpuacct");
  if (directory.empty()) return;
  std::string file = directory + (old ? "/cpuacct.usage" : "/cpu.stat");
  if (read_cpu(file)) cpu_file_ = std::move(file);
}

std::string JobUsage::own_cgroup(const task::Cgroups& cgroups, const std::string& controller) const {
  auto directory = cgroups.directory(controller);
  return directory && only_shell_in(*directory) ? *directory : "";
}

// There must be no cgroup below either, whose processes would count too.
bool JobUsage::only_shell_in(const std::string& directory) const {
  Result<std::string> processes = read_file(directory + "/cgroup.procs");
  if (!processes || trim(*processes) != std::to_string(shell_)) return false;
  std::error_code error;
  for (fs::directory_iterator each(directory, error), end; !error && each != end; each.increment(error)) {
    if (each->is_directory(error)) return false;
  }
  return !error;
}

Result<JobUsage::Sample> JobUsage::sample(const std::vector<pid_t>& processes) const {
  std::uint64_t ticks = 0;
  std::uint64_t pages = 0;
  if (needs_processes()) {
    if (auto shell = ProcessStat::of(shell_, root_)) ticks += shell->children_ticks();
    for (pid_t pid : processes) {
      auto process = ProcessStat::of(pid, root_);
      if (!process) continue;
      ticks += process->own_ticks() + process->children_ticks();
      pages += process->pages;
    }
  }
  Sample out;
  auto ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  auto page_size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.cpu = static_cast<double>(ticks) / ticks_a_second;
  out.memory = pages * page_size;
  if (cpu_by_cgroup()) out.cpu = TRY(read_cpu(cpu_file_));
  if (memory_by_cgroup()) out.memory = TRY(task::read_number(memory_file_));
  if (!peak_file_.empty()) out.peak = TRY(task::read_number(peak_file_));
  return out;
}

}  // namespace nacre::plugins
