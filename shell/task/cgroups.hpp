// SPDX-License-Identifier: Apache-2.0
//
// Where the cgroups of a process are mounted, version 2 or 1: cgroups(7).
#pragma once

#include <sys/types.h>

#include "base/result.hpp"

namespace nacre::task {

class Cgroups {
 public:
  // `root` is put before the names of all files. An error: /proc/PID/cgroup or mountinfo cannot be read.
  static Result<Cgroups> of_process(pid_t pid, const std::string& root = "");

  // Whether version 1 has the controller. Then it is not in the hierarchy of version 2, although the process is in
  // both.
  [[nodiscard]] bool has(const std::string& controller) const;
  // The directory of the process's cgroup in the controller's hierarchy, with `root`; if version 1 does not have
  // the controller, in that of version 2. None: it is outside of what is mounted.
  [[nodiscard]] std::optional<std::string> directory(const std::string& controller) const;
  // That of the process's cgroup of version 2, whatever controllers are there.
  [[nodiscard]] std::optional<std::string> unified_directory() const { return directory(""); }

 private:
  std::string root_;
  std::string cgroups_;  // /proc/PID/cgroup
  std::string mounts_;   // /proc/PID/mountinfo
};

// The number that a cgroup's file holds; or that follows `key`, such as "oom_kill ", in one of its lines.
Result<std::uint64_t> read_number(const std::string& path);
Result<std::uint64_t> read_keyed_number(const std::string& path, std::string_view key);

}  // namespace nacre::task
