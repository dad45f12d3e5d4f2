// SPDX-License-Identifier: Apache-2.0
//
// Where all tasks of a job have to start again together the leader answers what a shell asks, by an announcement:
// it alone knows which tasks have ended for good. Until all have been started, and while it is to be decided what
// becomes of the tasks of a lost shell, nothing is answered.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/restart_orders.hpp"
#include "core/restart_rules.hpp"
#include "core/shell_group.hpp"
#include "core/shell_tasks.hpp"
#include "elastic/restart_message.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class RestartAnswers {
 public:
  using Message = elastic::RestartMessage;

  // All have to outlive it.
  RestartAnswers(plugin::Host& host, ShellGroup& shells, const ShellTasks& tasks, const RestartRules& rules,
                 const RestartOrders& orders, const exits::JobEnd& end)
      : host_(host), shells_(shells), tasks_(tasks), rules_(rules), orders_(orders), end_(end) {}

  // `is_under_way`: all tasks of the job, or of this shell, are about to start again.
  void serve(std::function<bool()> is_under_way) { is_under_way_ = std::move(is_under_way); }

  void all_started();
  void loss_opens(group::Rank shell) { losses_.insert(shell); }
  void loss_closes(group::Rank shell);
  // All have started together.
  void note_start();
  [[nodiscard]] double ran() const;  // seconds since then

  // An end after which all tasks have to start again. Where it was compared with others of its shell, those of
  // other shells are waited for that may have come before it.
  void answer(const Message& message);
  // `nacre restart` of all tasks. A restart of all that is announced already does for the order, too.
  void answer_order();
  void order_answered() { order_is_answered_ = false; }  // the announcement has come back

  // "": all tasks can start again.
  [[nodiscard]] std::string why_not() const;

 private:
  static constexpr event::Seconds kSettle{0.1};

  void settle();
  void send_answer(const Message& message);
  void send(const Message& answer);

  plugin::Host& host_;
  ShellGroup& shells_;
  const ShellTasks& tasks_;
  const RestartRules& rules_;
  const RestartOrders& orders_;
  const exits::JobEnd& end_;
  std::function<bool()> is_under_way_;
  bool all_started_ = false;
  value::Idset losses_;              // shells
  std::vector<Message> unanswered_;  // until then
  struct Held {
    Message message;
    event::Seconds at;  // when it came
  };
  std::vector<Held> held_;  // for kSettle
  std::optional<event::Timer> settle_timer_;
  bool order_waits_ = false;        // likewise, `nacre restart` of all tasks
  bool order_is_answered_ = false;  // and its answer has not come back yet
  event::Seconds began_{};          // when all tasks have started together
};

}  // namespace nacre::core
