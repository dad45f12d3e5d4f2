// SPDX-License-Identifier: Apache-2.0
//
// Whether the kernel has killed processes of this shell's cgroup because memory ran out. It counts them:
// memory.events of version 2, memory.oom_control of version 1. A count is compared with the last one that was seen.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace nacre::plugins {

class OomKills {
 public:
  // Of the cgroup of `shell`. `root` is put before all names of files.
  static OomKills of_shell(pid_t shell, const std::string& root = "");

  [[nodiscard]] bool are_counted() const { return !events_file_.empty(); }
  // How many more since the last call, or since of_shell(); 0 where the kernel does not count them.
  std::uint64_t fresh();
  // Bytes; none: there is no limit, or it is not known.
  [[nodiscard]] std::optional<std::uint64_t> limit() const;

 private:
  std::string events_file_;  // empty: there is none
  std::string limit_file_;
  std::uint64_t seen_ = 0;
};

}  // namespace nacre::plugins
