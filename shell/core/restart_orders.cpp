// SPDX-License-Identifier: Apache-2.0
#include "core/restart_orders.hpp"

#include <csignal>
#include <utility>

#include "base/json.hpp"

namespace nacre::core {

void RestartOrders::serve(Calls calls, event::Seconds grace) {
  calls_ = std::move(calls);
  grace_ = grace;
}

Result<std::optional<value::Idset>> RestartOrders::parse(std::string_view bytes) {
  Json json = TRY(parse_json(bytes));
  auto ranks = TRY(JsonAt::root(json).find("ranks"));
  if (!ranks) return std::nullopt;
  return TRY(value::Idset::parse(TRY(ranks->string())));
}

std::string RestartOrders::why_not(const task::Task& task, bool& takes_all) const {
  if (task.starts_again()) return "it waits for its next start";
  if (task.state() != task::State::running)
    return task.state() == task::State::exited ? "it has ended" : "it has not been started yet";
  auto takes = calls_.takes_all(task);
  if (!takes) return takes.error().message;
  takes_all = *takes;
  return "";
}

Result<void> RestartOrders::begin(Rank rank) {
  const value::Idset one = value::Idset::range(rank, rank);
  auto timer = TRY(event::Timer::create(host_.loop(), [this, one] { calls_.kill(SIGKILL, one); }));
  timer.start_grace(grace_);
  ordered_.emplace(rank, std::move(timer));
  return {};
}

void RestartOrders::end(const value::Idset& ranks) {
  std::map<std::string, value::Idset> refused;
  value::Idset ended;
  value::Idset coming =
      ranks & host_.job().taskmap.ranks_on(host_.job().shell_rank);  // of a lost shell, to this one
  bool all_together = false;
  for (const auto& task : tasks_.all()) {
    Rank rank = task->rank();
    coming.remove(rank);
    if (!ranks.contains(rank) || has(rank)) continue;  // an order before is for both
    bool takes_all = false;
    std::string why = why_not(*task, takes_all);
    if (why.empty() && takes_all) {
      all_together = true;
    } else if (why.empty()) {
      Result<void> begun = begin(rank);
      if (begun)
        ended.insert(rank);
      else
        why = begun.error().message;
    }
    if (!why.empty()) refused[why].insert(rank);
  }
  if (!coming.empty()) refused["it has not been started yet"].insert(coming);
  for (const auto& [why, which] : refused) refuse(which, why);
  if (!ended.empty()) calls_.kill(SIGTERM, ended);
  if (all_together) calls_.order_all();
}

void RestartOrders::refuse(const value::Idset& ranks, const std::string& why) const {
  Result<void> sent = host_.announce(kRefused, dump_json({{"ranks", ranks.str()}, {"why", why}}));
  if (!sent) host_.log().log(Level::error, "", "restart: {}", sent.error().message);
}

}  // namespace nacre::core
