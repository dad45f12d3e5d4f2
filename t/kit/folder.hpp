// SPDX-License-Identifier: Apache-2.0
//
// A folder for a test's files, gone with it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"

namespace nacre::kit {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_("/tmp/t.XXXXXX") { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Its own path, or that of something in it.
  [[nodiscard]] std::string path(std::string_view name = "") const {
    return name.empty() ? path_ : path_ + "/" + std::string(name);
  }

  // Writes the file, and returns its path.
  std::string file(std::string_view name, std::string_view text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

 private:
  std::string path_;
};

}  // namespace nacre::kit
