// SPDX-License-Identifier: Apache-2.0
//
// A directory tree in place of a node's own, with files as the kernel has them in /proc and /sys/fs/cgroup.
#pragma once

#include "folder.hpp"

namespace nacre::kit {

struct NodeFiles : TemporaryFolder {
  void put(std::string_view name, std::string_view text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  void remove(std::string_view name) const { std::filesystem::remove_all(path(name)); }

  // Writes proc/PID/stat; times are in ticks, `waited` is that of children.
  void put_process(pid_t pid, std::string_view name, int user, int system, int waited_user, int waited_system,
                   int pages) const {
    put(fmt::format("proc/{}/stat", pid),
        fmt::format("{} ({}) S 1 100 100 0 -1 4194304 11 12 13 14 {} {} {} {} 20 0 1 0 5555 66666666 {} "
                    "18446744073709551615 1 1 0 0 0\n",
                    pid, name, user, system, waited_user, waited_system, pages));
  }
};

}  // namespace nacre::kit
