// SPDX-License-Identifier: Apache-2.0
//
// The file or descriptor that a report goes to as JSON.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "io/message_file.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

class ReportFile {
 public:
  static constexpr event::Seconds kMostWait{3};  // for the reader of a FIFO or a pipe

  // The option `report`: a path, relative to the working directory of this process as it is now, or the number of a
  // descriptor that was open when this process began, which is taken.
  static Result<std::unique_ptr<ReportFile>> at(plugin::Host& host, const JsonAt& option);

  // Adds the file's own name to the report, as "file", if it could be written; else warns. A file that was there
  // before is replaced at once, or stays. A reader is waited for: the host is held meanwhile.
  void write(Json& report);

 private:
  explicit ReportFile(plugin::Host& host) : host_(host) {}
  [[nodiscard]] Result<void> replace(std::string_view text) const;
  Result<void> send(std::string_view text);
  void let_go();
  void warn(std::string_view why);

  plugin::Host& host_;
  std::string path_;  // absolute; or of a descriptor
  UniqueFd fd_;
  std::unique_ptr<io::MessageFile> to_;
  std::optional<event::Timer> timer_;
  bool holds_ = false;
};

}  // namespace nacre::plugins
