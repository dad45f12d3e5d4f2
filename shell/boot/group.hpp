// SPDX-License-Identifier: Apache-2.0
//
// The shells of one job, as one of them sees the others: barriers, and events that are posted once for the whole
// job.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nacre::boot {

class Group {
 public:
  virtual ~Group() = default;

  // `done` is called once, when every shell has entered the barrier of this name, or when that cannot happen any
  // more. It may be called before this returns.
  virtual void enter(std::string_view barrier, std::function<void(Result<void>)> done) = 0;

  // Posts an event to the job's eventlog; called by each shell, recorded once. `timestamp`: seconds since the
  // Epoch; `context` is an object.
  virtual Result<void> post(double timestamp, std::string_view event, const Json& context) = 0;
};

// An eventlog, RFC 18: a line of JSON {"timestamp", "name", "context"} for each event, each written whole.
class EventLog {
 public:
  static Result<EventLog> create(const std::string& path);  // made anew
  Result<void> append(double timestamp, std::string_view name, const Json& context);

 private:
  EventLog(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

// A job of one shell: each barrier is complete once it is entered.
class Alone : public Group {
 public:
  explicit Alone(std::optional<EventLog> eventlog) : eventlog_(std::move(eventlog)) {}
  void enter(std::string_view barrier, std::function<void(Result<void>)> done) override;
  Result<void> post(double timestamp, std::string_view event, const Json& context) override;

 private:
  std::optional<EventLog> eventlog_;
};

}  // namespace nacre::boot
