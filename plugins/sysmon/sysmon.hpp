// SPDX-License-Identifier: Apache-2.0
//
// The memory and cpu time that a job uses on this node, by the kernel's files.
//
// A cgroup, version 2 or 1, has exact values, but they are the job's only if no other process is in it: that is, if
// the shell was put into a cgroup alone, which its tasks then inherit. Otherwise the job's processes are added up,
// by proc(5). Memory that they share then counts for each of them.
#pragma once

#include <sys/types.h>

#include "plugins/builtins.hpp"
#include "task/cgroups.hpp"

namespace nacre::plugins {

class JobUsage {
 public:
  struct Sample {
    double cpu = 0;                     // seconds of cpu time since some fixed time
    std::uint64_t memory = 0;           // bytes, now
    std::optional<std::uint64_t> peak;  // bytes, the most there ever were; none: the kernel does not report it
  };

  // For the job of the shell `shell`, which has not started any process yet. `root` is put before the names of all
  // files.
  static JobUsage of_shell(pid_t shell, const std::string& root = "");

  // Whether memory, or cpu time, is read from a cgroup.
  [[nodiscard]] bool memory_by_cgroup() const { return !memory_file_.empty(); }
  [[nodiscard]] bool cpu_by_cgroup() const { return !cpu_file_.empty(); }
  // Whether sample() needs the processes of the job.
  [[nodiscard]] bool needs_processes() const { return !memory_by_cgroup() || !cpu_by_cgroup(); }

  // `processes`: all processes below the shell. Those that have ended since are ignored.
  Result<Sample> sample(const std::vector<pid_t>& processes) const;

 private:
  JobUsage(pid_t shell, std::string root) : shell_(shell), root_(std::move(root)) {}

  void find_memory(const task::Cgroups& cgroups);
  void find_cpu(const task::Cgroups& cgroups);
  [[nodiscard]] std::string own_cgroup(const task::Cgroups& cgroups, const std::string& controller) const;
  [[nodiscard]] bool only_shell_in(const std::string& directory) const;

  pid_t shell_;
  std::string root_;
  std::string memory_file_;  // files of cgroups; empty: not used
  std::string peak_file_;
  std::string cpu_file_;
};

// Like make_sysmon(), for the job of the shell `shell`, with other files than this machine's, for tests; `root` as
// in JobUsage::of_shell().
PluginPtr make_sysmon_of(plugin::Host& host, pid_t shell, const std::string& root);

}  // namespace nacre::plugins
