// SPDX-License-Identifier: Apache-2.0
//
// Where the cgroups of a process are seen, version 2 or 1: cgroups(7).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace nacre::task {

class Cgroups {
 public:
  // `root` is put before all names of files. An error: /proc/PID/cgroup or mountinfo cannot be read.
  static Result<Cgroups> of_process(pid_t pid, const std::string& root = "");

  // Whether version 1 has the controller: it is not in the hierarchy of version 2 then, though the process is in both.
  [[nodiscard]] bool has(const std::string& controller) const;
  // The directory of the process's cgroup in the controller's hierarchy, which is that of version 2 where version 1 does not have
  // it; with `root`. None: it is outside of what is mounted.
  [[nodiscard]] std::optional<std::string> directory(const std::string& controller) const;

 private:
  std::string root_;
  std::string cgroups_;  // /proc/PID/cgroup
  std::string mounts_;   // /proc/PID/mountinfo
};

// The number that a file of a cgroup is, or that its line has which starts with `key`: "oom_kill ".
Result<std::uint64_t> read_number(const std::string& path);
Result<std::uint64_t> read_keyed_number(const std::string& path, std::string_view key);

}  // namespace nacre::task
