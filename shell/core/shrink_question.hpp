// SPDX-License-Identifier: Apache-2.0
//
// Before shells leave, the leader asks them which of their tasks are connected to PMI (topic pmi.connected), and
// whether processes are that tasks have spawned (pmi.spawned): by an announcement. So it asks those that stay,
// before a spare takes over the tasks of a lost shell. They answer with a record of bulk data. A shell that does
// not answer in time counts as one without such tasks: it may be frozen, and a shrink is the way to remove it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plugin/host.hpp"
#include "plugin/open_questions.hpp"
#include "value/idset.hpp"

namespace nacre::core {

inline constexpr std::string_view kShrinkQuestionTopic = "shell.shrink-question";

class ShrinkQuestion {
 public:
  static constexpr event::Seconds kMostAnswerTime{2};

  explicit ShrinkQuestion(plugin::Host& host) : host_(host) {}

  struct Connected {
    value::Idset tasks;     // ranks
    value::Idset spawning;  // shells with spawned processes that are
    [[nodiscard]] bool none() const { return tasks.empty() && spawning.empty(); }
  };

  // The leader's. `done` is called once, perhaps before this returns, with what is connected; never after end().
  using Done = std::function<void(const Connected& connected)>;
  enum class About : std::uint8_t { leaving, staying };
  void ask(const value::Idset& shells, About about, const Done& done);
  void take(std::uint32_t shell, std::string_view answer);
  void gone(std::uint32_t shell) { open_.gone(shell); }  // it answers no more
  [[nodiscard]] value::Idset asked_to_leave() const;
  void end() { open_.drop_all(); }

  // Of any shell: those that are about to leave, perhaps, if this announcement asks for that.
  static value::Idset leaving_in(std::string_view announcement);
  // Of a shell that is asked: the record for this announcement; "": it is not for this shell.
  std::string answer(std::string_view announcement);

 private:
  struct Asked {
    value::Idset shells;
    About about = About::leaving;
    Connected connected;
  };

  plugin::Host& host_;
  plugin::OpenQuestions<Asked> open_{host_, std::string(kShrinkQuestionTopic)};
};

}  // namespace nacre::core
