// SPDX-License-Identifier: Apache-2.0
//
// The plugin `usage`, for tests of its limit.
#pragma once

#include "bulk/port.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/builtins.hpp"
#include "usage/table.hpp"

namespace nacre::plugins {

// `most_tasks`: in a larger job tasks have no rows, and there are only totals.
PluginPtr make_usage_of(plugin::Host& host, std::uint64_t most_tasks);

// A shell's way to send its tasks' usage to the leader: rows in batches, by bulk data. The leader's own goes into
// the table at once.
class UsageUplink {
 public:
  static constexpr event::Seconds kMostDelay{0.5};  // for a row that waits for others
  static constexpr std::size_t kMostUnsent = 4096;  // batches; those beyond are dropped

  // `own`: the leader's, which gets the batches; none in other shells. `only_totals`: no rows are sent. `keeps`
  // what was sent, for another leader.
  UsageUplink(plugin::Host& host, std::function<void(const usage::UsageBatch&)> own, bool only_totals, bool keeps)
      : host_(host), own_(std::move(own)), only_totals_(only_totals), keeps_(keeps) {}

  // `take`: on the leader, for what other shells send.
  void serve(std::function<void(bulk::Id shell, std::string_view bytes)> take);
  void add(usage::TaskRow row);
  // Sends the last batch.
  void finish(const usage::NodeRow& node);
  // Sends all batches once more.
  void send_again();
  // Rows that could not be sent, as the leader has taken none for long.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  void flush();
  void put(usage::UsageBatch batch);

  plugin::Host& host_;
  std::function<void(const usage::UsageBatch&)> own_;
  bool only_totals_, keeps_;
  std::vector<usage::UsageBatch> kept_;
  usage::UsageBatch next_;
  bulk::RecordQueue records_{bulk::up::kUsage};
  std::optional<event::Timer> timer_;
  std::uint64_t dropped_ = 0;
};

}  // namespace nacre::plugins
