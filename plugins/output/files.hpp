// SPDX-License-Identifier: Apache-2.0
//
// The files that output goes to, by the templates of nacre-shell-options(7).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// The name that a template stands for: relative ones are below the working directory. A tag of a task stays as it
// is unless there is one.
Result<std::string> output_path(plugin::Host& host, const std::string& text, const task::Task* task);
// Whether tags are left in it.
[[nodiscard]] bool has_tags(std::string_view text);

// Opens or makes a file to append to; `empties` it first. Nothing is waited for, so a FIFO that nobody reads is ENXIO.
// None if it failed: see errno.
[[nodiscard]] UniqueFd open_to_append(const std::string& path, bool empties);

class OutputFiles {
 public:
  explicit OutputFiles(bool append) : append_(append) {}

  // Opened for appending; the first time it is emptied, unless what is there is to be kept.
  Result<UniqueFd> open(const std::string& path);
  // Another shell has emptied it.
  void keep(const std::string& path) { ++opened_[path]; }

 private:
  bool append_;
  std::map<std::string, int> opened_;  // how often
};

// The descriptor waits again where it is read or written: for a task that gets it. An error begins with `what`.
Result<void> make_blocking(int fd, const std::string& what);

}  // namespace nacre::plugins
