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

namespace nacre {

class JoinProgress {
 public:
  // Who is waited for, as people are to read it. Has to be callable as long as this lives.
  using Missing = std::function<std::vector<std::string>()>;

  static Result<JoinProgress> show(event::Loop& loop, Missing missing);
  JoinProgress(JoinProgress&&) noexcept = default;
  ~JoinProgress();  // takes the line away

  // "waiting for A, B and 3 more", without a name "waiting for others".
  [[nodiscard]] static std::string text(const std::vector<std::string>& missing);

 private:
  struct State {
    Missing missing;
    int seconds = 0;
    std::optional<event::Timer> timer;
  };
  explicit JoinProgress(std::unique_ptr<State> state) : state_(std::move(state)) {}
  std::unique_ptr<State> state_;
};

}  // namespace nacre
