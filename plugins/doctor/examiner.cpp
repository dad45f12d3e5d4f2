// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/examiner.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "doctor/words.hpp"

namespace nacre::plugins {
namespace {

constexpr std::array kWays = {"none", "auto", "eu-stack", "gdb", "py-spy"};  // StackWay

}  // namespace

Json ExaminationOrder::json() const {
  return {{"interval", interval},
          {"by-rank", by_rank},
          {"stacks", kWays.at(static_cast<std::size_t>(stacks))},
          {"only-silence", only_silence}};
}

Result<ExaminationOrder> ExaminationOrder::parse(const Json& json) {
  JsonAt at = JsonAt::root(json);
  ExaminationOrder out;
  if (auto interval = TRY(at.find("interval"))) {
    out.interval = TRY(interval->number());
    if (!(out.interval >= kLeastInterval && out.interval <= kMostInterval))
      return interval->expected(fmt::format("{} to {} seconds", kLeastInterval, kMostInterval));
  }
  if (auto by_rank = TRY(at.find("by-rank"))) out.by_rank = TRY(by_rank->boolean());
  if (auto only = TRY(at.find("only-silence"))) out.only_silence = TRY(only->boolean());
  if (auto stacks = TRY(at.find("stacks"))) {
    auto way = std::find(kWays.begin(), kWays.end(), TRY(stacks->string()));
    if (way == kWays.end()) return stacks->expected(fmt::format("one of {}", fmt::join(kWays, ", ")));
    out.stacks = static_cast<StackWay>(way - kWays.begin());
  }
  return out;
}

double ExaminationOrder::most_time() const {
  double for_stacks = stacks == StackWay::none ? 0 : StackTaker::kMostInAll.count() + StackTaker::kMostTime.count();
  return interval + for_stacks + kMostAnswerTime;
}

double ExaminationOrder::most_silent_time() const { return interval + kMostAnswerTime; }

Json json_of(const Examined& examined, std::size_t most) {
  Json out = examined.examination.json();
  Json groups = Json::array();
  std::size_t bytes = 0;
  for (const doctor::TaskGroup& each : examined.examination.groups) {
    Json group = each.json();
    group["hosts"] = doctor::hosts_of(each.ranks, examined.examination);
    bytes += dump_json(group).size();
    if (bytes > most) break;
    groups.push_back(std::move(group));
  }
  if (std::size_t left = examined.examination.groups.size() - groups.size(); left > 0)
    out["groups_left_out"] = left;
  out["groups"] = std::move(groups);
  for (const doctor::Verdict& each : examined.verdicts) out["verdicts"].push_back(each.json());
  return out;
}

Examiner* examiner_of(plugin::Host& host) {
  for (const auto& each : host.stack().plugins()) {
    if (each->name() == "doctor") return dynamic_cast<Examiner*>(each.get());
  }
  return nullptr;
}

}  // namespace nacre::plugins
