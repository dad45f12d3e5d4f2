// SPDX-License-Identifier: Apache-2.0
//
// A directory tree in place of a node's own, with files as the kernel has them in /proc and /sys/fs/cgroup.
#pragma once

#include <stdlib.h>
#include <sys/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace nacre::kit {

class NodeFiles {
 public:
  NodeFiles() {
    root_ = "/tmp/node-XXXXXX";
    if (::mkdtemp(root_.data()) == nullptr) std::abort();
  }
  ~NodeFiles() { std::filesystem::remove_all(root_); }
  NodeFiles(const NodeFiles&) = delete;
  NodeFiles& operator=(const NodeFiles&) = delete;

  [[nodiscard]] const std::string& root() const { return root_; }

  void put(const std::string& path, std::string_view text) const {
    std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_ + "/" + path); }

  // Writes proc/PID/stat; times are in ticks, `waited` is that of children.
  void put_process(pid_t pid, std::string_view name, int user, int system, int waited_user, int waited_system,
                   int pages) const {
    put(fmt::format("proc/{}/stat", pid),
        fmt::format("{} ({}) S 1 100 100 0 -1 4194304 11 12 13 14 {} {} {} {} 20 0 1 0 5555 66666666 {} "
                    "18446744073709551615 1 1 0 0 0\n",
                    pid, name, user, system, waited_user, waited_system, pages));
  }

 private:
  std::string root_;
};

}  // namespace nacre::kit
