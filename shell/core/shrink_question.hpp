// SPDX-License-Identifier: Apache-2.0
//
// Before shells leave, the leader asks them which of their tasks are connected to PMI (topic pmi.connected): by an
// announcement. They answer with a record of bulk data. A shell that does not answer in time counts as one without
// such tasks: it may be frozen, and a shrink is the way to remove it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class ShrinkQuestion {
 public:
  static constexpr event::Seconds kMostAnswerTime{2};

  explicit ShrinkQuestion(plugin::Host& host) : host_(host) {}

  // The leader's. `done` is called once, perhaps before this returns, with the ranks of the tasks that are
  // connected; never after end().
  using Done = std::function<void(const value::Idset& connected)>;
  void ask(const value::Idset& shells, Done done);
  void take(std::uint32_t shell, std::string_view answer);
  void gone(std::uint32_t shell);  // it answers no more
  [[nodiscard]] value::Idset asked() const;
  void end() { open_.clear(); }

  // Of a shell that is asked: the record for this announcement; "": it is not for this shell.
  std::string answer(std::string_view announcement);

 private:
  using Number = std::uint64_t;
  struct Question {
    value::Idset shells, waiting, connected;
    Done done;
    std::optional<event::Timer> timer;
  };

  Result<void> send(Number number, Question& question);
  void finish(Number number);

  plugin::Host& host_;
  std::map<Number, Question> open_;
  Number last_ = 0;
};

inline constexpr std::string_view kShrinkQuestionTopic = "shell.shrink-question";

}  // namespace nacre::core
