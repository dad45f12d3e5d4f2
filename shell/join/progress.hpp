// SPDX-License-Identifier: Apache-2.0
//
// What the leader shows while the shells of a job join, where `nacre launch` has a terminal: from the first second on one line on
// standard error, which goes when all have joined.
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
  // Who is waited for, as people are to read it. Has to be callable as long as this lives.
  using Missing = std::function<std::vector<std::string>()>;

  static Result<std::unique_ptr<JoinProgress>> show(event::Loop& loop, Missing missing);
  ~JoinProgress();                             // takes the line away
  JoinProgress(const JoinProgress&) = delete;  // the timer's function refers to it
  JoinProgress& operator=(const JoinProgress&) = delete;

 private:
  explicit JoinProgress(Missing missing) : missing_(std::move(missing)) {}

  Missing missing_;
  int seconds_ = 0;
  std::optional<event::Timer> timer_;
};

}  // namespace nacre::join
