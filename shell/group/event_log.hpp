// SPDX-License-Identifier: Apache-2.0
//
// An eventlog, RFC 18: one line of JSON {"timestamp", "name", "context"} for each event, written as a whole.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nacre::group {

class EventLog {
 public:
  static Result<EventLog> create(const std::string& path);  // replaces the file
  // `timestamp`: seconds since the Epoch; `context` is an object.
  Result<void> append(double timestamp, std::string_view name, const Json& context);

 private:
  EventLog(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

}  // namespace nacre::group
