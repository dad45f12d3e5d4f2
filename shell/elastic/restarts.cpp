// SPDX-License-Identifier: Apache-2.0
#include "elastic/restarts.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/invariant.hpp"

namespace nacre::elastic {
namespace {

Error none_left(std::string_view whose, std::uint64_t limit) {
  return Error{ENOSPC, fmt::format("the {} has used {} of {} restarts", whose, limit, limit)};
}

}  // namespace

double Restarts::next_delay(std::uint32_t& in_a_row, double ran) const {
  if (ran >= kSteady) in_a_row = 0;
  constexpr std::uint32_t kMostDoublings = 60;  // more exceed every limit
  double delay = std::ldexp(limits_.first, static_cast<int>(std::min(in_a_row++, kMostDoublings)));
  return std::min(delay, limits_.longest);
}

Result<Restarts::Granted> Restarts::take(Rank rank, double ran) {
  if (used_ >= limits_.job) return none_left("job", limits_.job);
  Task& task = tasks_[rank];
  if (task.used >= limits_.per_task) return none_left("task", limits_.per_task);
  ++task.used;
  INVARIANT(task.used <= used_ + 1);
  return Granted{++used_, next_delay(task.in_a_row, ran)};
}

Result<Restarts::Granted> Restarts::take_together(std::uint32_t& in_a_row, double ran) {
  if (used_ >= limits_.job) return none_left("job", limits_.job);
  return Granted{++used_, next_delay(in_a_row, ran)};
}

Json Restarts::json() const {
  Json tasks = Json::array();
  for (const auto& [rank, task] : tasks_) tasks.push_back(Json::array({rank, task.used, task.in_a_row}));
  return {{"used", used_}, {"jobs_in_a_row", jobs_in_a_row_}, {"tasks", std::move(tasks)}};
}

Result<void> Restarts::take(const JsonAt& at) {
  auto number = [](const JsonAt& each) { return each.integer(0, INT64_MAX); };
  used_ = static_cast<std::uint64_t>(TRY(number(TRY(at.at("used")))));
  jobs_in_a_row_ = static_cast<std::uint32_t>(TRY(number(TRY(at.at("jobs_in_a_row")))));
  for (const JsonAt& each : TRY(TRY(at.at("tasks")).elements())) {
    constexpr std::size_t kMembers = 3;
    std::vector<JsonAt> task = TRY(each.elements());
    if (task.size() != kMembers) return each.expected("[RANK, RESTARTS, RESTARTS IN A ROW]");
    tasks_[static_cast<Rank>(TRY(number(task[0])))] = {static_cast<std::uint64_t>(TRY(number(task[1]))),
                                                       static_cast<std::uint32_t>(TRY(number(task[2])))};
  }
  return {};
}

}  // namespace nacre::elastic
