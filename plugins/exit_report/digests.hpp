// SPDX-License-Identifier: Apache-2.0
//
// Which tasks have failed alike: in the same way, with the same last line on standard error, and, where a core dump
// shows it, in the same module. The leader asks all shells once, when the tasks of the job have ended; each answers
// for its own.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/exit_report/task_facts.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class FailureDigests {
 public:
  static constexpr std::size_t kMostHere = 16;  // that a shell sends of each way to fail
  static constexpr std::size_t kMostAll = 32;   // of all shells

  struct Class {
    std::string last;    // line
    std::string module;  // "": not known
    value::Idset ranks;
  };

  // Both have to outlive it.
  FailureDigests(plugin::Host& host, TaskFacts& facts) : host_(host), facts_(facts) {}

  // From here on the leader is answered.
  void serve();
  // The leader's: of tasks whose records have these texts. `done` is called once, perhaps before it returns, unless
  // this is destroyed.
  void ask(const std::vector<std::string>& records, std::function<void()> done);
  // By the record's text, the largest first. Tasks of which nothing is known, and of a shell's or the job's classes
  // beyond the most, are in none.
  [[nodiscard]] const std::map<std::string, std::vector<Class>>& classes() const { return classes_; }

 private:
  void asked(std::string_view records);
  void answer_if_written();
  void answer();
  [[nodiscard]] std::string own() const;
  void take(const plugin::Gathered& all);

  plugin::Host& host_;
  TaskFacts& facts_;
  plugin::Registration announcements_, gathered_;
  std::function<void()> done_;
  std::set<std::string> records_;  // that are asked for
  event::Seconds until_{};         // when what their tasks have written is waited for no longer
  std::optional<event::Timer> timer_;
  std::map<std::string, std::vector<Class>> classes_;
};

}  // namespace nacre::plugins
