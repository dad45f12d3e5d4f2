// SPDX-License-Identifier: Apache-2.0
//
// The files that output goes to, by the templates described in nacre-shell-options(7).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// Expands a template; a relative name is below the working directory. Without `task`, the tags of tasks are left as
// they are, and those that nobody knows always.
Result<std::string> output_path(plugin::Host& host, const std::string& text, const task::Task* task);

// Opens or makes a file to append to; with `empties` it is emptied first. Never waits, so a FIFO without a reader
// is ENXIO. None if it failed: see errno.
[[nodiscard]] UniqueFd open_to_append(const std::string& path, bool empties);

class OutputFiles {
 public:
  OutputFiles(bool append, bool makes_directories) : append_(append), makes_directories_(makes_directories) {}

  // Opens a file for appending; the first time it is emptied, unless its content is kept. Directories on the way to
  // it are made, where that is asked for.
  Result<UniqueFd> open(const std::string& path);
  // Another shell has emptied it.
  void keep(const std::string& path) { ++opened_[path]; }

 private:
  bool append_, makes_directories_;
  std::map<std::string, int> opened_;  // how many times
};

// Makes reads and writes of the descriptor wait again, for a task that gets it. An error begins with `what`.
Result<void> make_blocking(int fd, const std::string& what);

}  // namespace nacre::plugins
