// SPDX-License-Identifier: Apache-2.0
//
// What the leader asks the shells of all nodes, and what they answer: an announcement to all, and records of bulk
// data that come up to the leader alone. A shell that has not answered in time is left out, and named.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/host.hpp"
#include "plugins/control/processes.hpp"

namespace nacre::plugins {

class Questions {
 public:
  static constexpr event::Seconds kMostAnswerTime{2};
  static constexpr std::size_t kMostOpen = 16;  // questions

  explicit Questions(plugin::Host& host) : host_(host) {}

  // Every shell's, in shell.init: from here on it answers.
  void serve();

  // The leader's. `done` is called once, perhaps before this returns: the processes of all tasks, and the shells
  // that are late. EBUSY: too many are open.
  using Done = std::function<void(std::vector<TaskProcess> processes, std::set<std::uint32_t> late)>;
  Result<void> ask(Done done);
  // That shell answers no more.
  void lost(std::uint32_t shell);

 private:
  struct Question {
    std::set<std::uint32_t> waiting;  // shells
    std::vector<TaskProcess> processes;
    Done done;
    std::optional<event::Timer> timer;
  };

  void answer(std::string_view number);
  void send();
  void take(std::uint32_t shell, std::string_view bytes);
  void finish(std::uint64_t number);

  plugin::Host& host_;
  plugin::Registration asked_;
  std::deque<std::string> unsent_;  // records
  std::map<std::uint64_t, Question> open_;
  std::set<std::uint32_t> lost_;
  std::uint64_t last_ = 0;
};

}  // namespace nacre::plugins
