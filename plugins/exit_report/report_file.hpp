// SPDX-License-Identifier: Apache-2.0
//
// The file that a report goes to as JSON.
#pragma once

#include <string>

#include "base/json.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

class ReportFile {
 public:
  // The option `report`: a path, relative to the working directory of this process as it is now.
  static Result<ReportFile> at(const JsonAt& option);

  // Adds its own name to the report, as "file", if it could be written; else warns. What was there before is replaced at once, or stays.
  void write(plugin::Host& host, Json& report) const;

 private:
  explicit ReportFile(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Result<void> replace(std::string_view text) const;

  std::string path_;
};

}  // namespace nacre::plugins
