// SPDX-License-Identifier: Apache-2.0
//
// What the leader shows while the shells of a job join, if the launcher has a terminal: after the first second a
// line on standard error, which is erased when all have joined.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "event/loop.hpp"

namespace nacre::join {

class JoinProgress {
 public:
  // The shells that have not joined, as text. Has to be callable as long as this object lives.
  using Missing = std::function<std::vector<std::string>()>;

  // `front`: with what the line begins.
  static Result<std::unique_ptr<JoinProgress>> show(event::Loop& loop, const std::string& front, Missing missing);
  ~JoinProgress();                             // erases the line
  JoinProgress(const JoinProgress&) = delete;  // the timer's callback refers to it
  JoinProgress& operator=(const JoinProgress&) = delete;

 private:
  explicit JoinProgress(Missing missing) : missing_(std::move(missing)) {}

  Missing missing_;
  int seconds_ = 0;
  std::optional<event::Timer> timer_;
};

}  // namespace nacre::join
