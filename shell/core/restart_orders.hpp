// SPDX-License-Identifier: Apache-2.0
//
// What `nacre restart` orders, on one shell. The leader's plugin control announces it; in the order of the log each
// shell ends those of its tasks that are named: SIGTERM, and SIGKILL after the grace. ShellRestart starts them
// again then, whatever they have ended with, and without using one of the option's restarts.
//
// Which tasks cannot start again is announced to the leader, with the reason; these run on.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "core/shell_tasks.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "value/idset.hpp"

namespace nacre::core {

class RestartOrders {
 public:
  using Rank = value::Idset::Id;
  static constexpr std::string_view kOrdered = "shell.restart-order";    // doc/protocol.md
  static constexpr std::string_view kRefused = "shell.restart-refused";  // likewise

  struct Calls {
    // Whether all tasks have to start with this one; an error: it cannot start again.
    std::function<Result<bool>(const task::Task&)> takes_all;
    std::function<void()> order_all;
    // Sends to these, as the shell itself.
    std::function<void(int signum, const value::Idset& ranks)> kill;
  };

  // Both have to outlive it.
  RestartOrders(plugin::Host& host, ShellTasks& tasks) : host_(host), tasks_(tasks) {}
  void serve(Calls calls, event::Seconds grace);

  // The ranks of an order; none: all tasks, together.
  static Result<std::optional<value::Idset>> parse(std::string_view bytes);

  // Ends those of this shell.
  void end(const value::Idset& ranks);
  void refuse(const value::Idset& ranks, const std::string& why) const;

  [[nodiscard]] bool has(Rank rank) const { return ordered_.contains(rank); }
  // It has ended, or nothing starts again.
  void drop(Rank rank) { ordered_.erase(rank); }
  void drop_all() { ordered_.clear(); }

 private:
  [[nodiscard]] std::string why_not(const task::Task& task, bool& takes_all) const;
  Result<void> begin(Rank rank);

  plugin::Host& host_;
  ShellTasks& tasks_;
  Calls calls_;
  event::Seconds grace_{};
  std::map<Rank, event::Timer> ordered_;  // that are being ended; SIGKILL
};

}  // namespace nacre::core
