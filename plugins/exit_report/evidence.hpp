// SPDX-License-Identifier: Apache-2.0
//
// What the shells of a job know of the tasks that have failed, from which it follows which was the first
// (exits/blame.hpp). The leader asks all shells once, when the tasks have ended; each answers for its own, with
// those that may have been the first.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "event/loop.hpp"
#include "exits/blame.hpp"
#include "plugin/host.hpp"
#include "plugins/exit_report/task_facts.hpp"
#include "timeline/clock.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class FailureEvidence {
 public:
  static constexpr std::size_t kMostOwn = 6;    // that a shell sends: of those that others have not brought about
  static constexpr std::size_t kMostPeers = 2;  // ... and of the rest

  // Both have to outlive it.
  FailureEvidence(plugin::Host& host, TaskFacts& facts) : host_(host), facts_(facts) {}

  // From here on the leader is answered.
  void serve();
  // The leader's. `done` is called once, perhaps before it returns, unless this is destroyed.
  void ask(std::function<void()> done);

  // How the clock of a shell is to the leader's: of a question and its answer, in seconds by the clock of who has
  // sent or received it.
  struct Exchange {
    double sent = 0, received = 0, answered = 0, taken = 0;
  };
  void add_exchange(std::uint32_t shell, const Exchange& exchange);

  // By the leader's clock; those of a shell that has answered are all that may have been the first there.
  [[nodiscard]] std::vector<exits::FailureFacts> failures() const;
  [[nodiscard]] const value::Idset& answered() const { return answered_; }  // shells

 private:
  void asked();
  void answer_if_written();
  void answer();
  [[nodiscard]] std::vector<exits::FailureFacts> own() const;
  void take(const plugin::Gathered& all);

  plugin::Host& host_;
  TaskFacts& facts_;
  plugin::Registration announcements_, gathered_;
  std::function<void()> done_;
  event::Seconds sent_{};      // when all were asked
  event::Seconds received_{};  // when this shell was
  std::optional<event::Timer> timer_;
  std::vector<exits::FailureFacts> failures_;  // by the clocks of their shells, which are their `clock`
  std::map<std::uint32_t, timeline::Clock> clocks_;
  value::Idset answered_;
};

}  // namespace nacre::plugins
