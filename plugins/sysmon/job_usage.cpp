// SPDX-License-Identifier: Apache-2.0
#include "plugins/sysmon/job_usage.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::plugins {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVersion2 = "";  // in place of a controller: the hierarchy of all controllers

bool contains(const std::vector<std::string_view>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// ---- cgroups(7) ----------------------------------------------------------------

// The cgroup in the hierarchy of a controller, by /proc/PID/cgroup: lines ID:CONTROLLER,...:PATH.
std::optional<std::string_view> path_in(const std::string& cgroups, const std::string& controller) {
  for (std::string_view line : split(cgroups, '\n')) {
    std::size_t first = line.find(':');
    std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    if (contains(split(line.substr(first + 1, second - first - 1), ','), controller))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

struct Mount {
  std::string_view root;   // the directory of the hierarchy that is seen at ...
  std::string_view point;  // ... this one
};

// By /proc/PID/mountinfo: ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTION,...
std::optional<Mount> mount_of(const std::string& mounts, const std::string& controller) {
  constexpr std::size_t kRoot = 3;
  constexpr std::size_t kPoint = 4;
  for (std::string_view line : split(mounts, '\n')) {
    std::vector<std::string_view> fields = split(line, ' ');
    auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.end() - dash < 4 || dash - fields.begin() <= static_cast<std::ptrdiff_t>(kPoint)) continue;
    bool found = controller == kVersion2 ? dash[1] == "cgroup2"
                                         : dash[1] == "cgroup" && contains(split(dash[3], ','), controller);
    if (found) return Mount{fields[kRoot], fields[kPoint]};
  }
  return std::nullopt;
}

// The directory in which a cgroup is seen; none if it is outside of what is mounted.
std::optional<std::string> directory_of(std::string_view path, const Mount& mount) {
  if (mount.root != "/") {
    if (!path.starts_with(mount.root)) return std::nullopt;
    path.remove_prefix(mount.root.size());
    if (!path.empty() && path.front() != '/') return std::nullopt;
  }
  if (path.starts_with("/..")) return std::nullopt;
  return fmt::format("{}{}", mount.point, path);
}

Result<std::uint64_t> read_number(const std::string& path) {
  auto number = parse_u64(trim(TRY(read_file(path))));
  if (!number) return invalid(path + ": expected a number");
  return *number;
}

// The number in the line that starts with `key`.
Result<std::uint64_t> read_keyed(const std::string& path, std::string_view key) {
  std::string text = TRY(read_file(path));
  for (std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key)) continue;
    if (auto number = parse_u64(line.substr(key.size()))) return *number;
  }
  return invalid(fmt::format("{}: expected a line '{}NUMBER'", path, key));
}

// Seconds, of cpu.stat (version 2) or cpuacct.usage.
Result<double> read_cpu(const std::string& path) {
  if (path.ends_with("cpu.stat")) return static_cast<double>(TRY(read_keyed(path, "usage_usec "))) / 1e6;
  return static_cast<double>(TRY(read_number(path))) / 1e9;
}

bool readable(const std::string& path) { return read_number(path).has_value(); }

// ---- proc(5) -------------------------------------------------------------------

struct ProcessUsage {
  std::uint64_t own_ticks = 0;
  std::uint64_t children_ticks = 0;  // of those that it has waited for
  std::uint64_t pages = 0;
};

// Of /proc/PID/stat; none if there is no such process. The name, in parentheses, may hold any byte.
std::optional<ProcessUsage> read_process(const std::string& root, pid_t pid) {
  constexpr std::size_t kUserTime = 11;  // after the name
  constexpr std::size_t kResident = 21;
  Result<std::string> text = read_file(fmt::format("{}/proc/{}/stat", root, pid));
  std::size_t name_end = text ? text->rfind(") ") : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  std::vector<std::string_view> fields = split(std::string_view(*text).substr(name_end + 2), ' ');
  if (fields.size() <= kResident) return std::nullopt;
  auto number = [&](std::size_t i) { return parse_u64(fields[i]).value_or(0); };
  return ProcessUsage{number(kUserTime) + number(kUserTime + 1), number(kUserTime + 2) + number(kUserTime + 3),
                      number(kResident)};
}

}  // namespace

JobUsage JobUsage::of_shell(pid_t shell, const std::string& root) {
  JobUsage usage(shell, root);
  auto cgroups = read_file(fmt::format("{}/proc/{}/cgroup", root, shell));
  auto mounts = read_file(fmt::format("{}/proc/{}/mountinfo", root, shell));
  if (cgroups && mounts) {
    usage.find_memory(*cgroups, *mounts);
    usage.find_cpu(*cgroups, *mounts);
  }
  return usage;
}

// A controller of version 1 is not in the hierarchy of version 2, though the process is in both.
void JobUsage::find_memory(const std::string& cgroups, const std::string& mounts) {
  bool old = path_in(cgroups, "memory").has_value();
  std::string directory = own_cgroup(cgroups, mounts, old ? "memory" : kVersion2);
  if (directory.empty()) return;
  std::string current = directory + (old ? "/memory.usage_in_bytes" : "/memory.current");
  std::string peak = directory + (old ? "/memory.max_usage_in_bytes" : "/memory.peak");
  if (!readable(current)) return;
  memory_file_ = std::move(current);
  if (readable(peak)) peak_file_ = std::move(peak);
}

void JobUsage::find_cpu(const std::string& cgroups, const std::string& mounts) {
  bool old = path_in(cgroups, "cpuacct").has_value();
  std::string directory = own_cgroup(cgroups, mounts, old ? "cpuacct" : kVersion2);
  if (directory.empty()) return;
  std::string file = directory + (old ? "/cpuacct.usage" : "/cpu.stat");
  if (read_cpu(file)) cpu_file_ = std::move(file);
}

std::string JobUsage::own_cgroup(const std::string& cgroups, const std::string& mounts,
                                 const std::string& controller) const {
  auto path = path_in(cgroups, controller);
  auto mount = mount_of(mounts, controller);
  auto directory = path && mount ? directory_of(*path, *mount) : std::nullopt;
  if (!directory || !only_shell_in(root_ + *directory)) return "";
  return root_ + *directory;
}

// Nor may there be a cgroup below, whose processes would count too.
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
  ProcessUsage sum;
  if (needs_processes()) {
    if (auto shell = read_process(root_, shell_)) sum.children_ticks += shell->children_ticks;
    for (pid_t pid : processes) {
      auto process = read_process(root_, pid);
      if (!process) continue;
      sum.own_ticks += process->own_ticks;
      sum.children_ticks += process->children_ticks;
      sum.pages += process->pages;
    }
  }
  Sample out;
  auto ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  auto page_size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.cpu = static_cast<double>(sum.own_ticks + sum.children_ticks) / ticks_a_second;
  out.memory = sum.pages * page_size;
  if (cpu_by_cgroup()) out.cpu = TRY(read_cpu(cpu_file_));
  if (memory_by_cgroup()) out.memory = TRY(read_number(memory_file_));
  if (!peak_file_.empty()) out.peak = TRY(read_number(peak_file_));
  return out;
}

}  // namespace nacre::plugins
