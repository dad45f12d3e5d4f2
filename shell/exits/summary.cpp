// SPDX-License-Identifier: Apache-2.0
#include "exits/summary.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.hpp"

namespace nacre::exits {
namespace {

// The end of the task that failed first: by evidence, or the cause's task, else the first failure that came.
std::optional<Record> first_failure(const JobEnd& end, const Outcomes& outcomes, const Policy& policy) {
  if (end.first() && policy.is_failure(end.first()->record)) return end.first()->record;
  if (end.cause() && end.cause()->deciding() != nullptr) return end.cause()->deciding()->record;
  auto classes = outcomes.in_order();
  auto first = std::find_if(classes.begin(), classes.end(), [&](const auto& each) {
    return policy.is_failure(each.first) && !end.ended_from_outside(each.first);
  });
  return first != classes.end() ? std::optional(first->first) : std::nullopt;
}

std::string largest(const Outcomes& outcomes, const Policy& policy, int code) {
  for (const auto& [record, ranks] : outcomes.in_order()) {
    if (policy.code_of(record) == code) return fmt::format("task {}", ranks.short_str());
  }
  return "the job was ended before its time";
}

std::string reason(const JobEnd& end, const Outcomes& outcomes, const Policy& policy, int code) {
  if (code == 0) return "success";
  if (end.cancelled(outcomes, policy) == code) return "a signal to all tasks";
  if (end.cause() && end.cause()->code && end.cause()->deciding() == nullptr) return "the cause";
  auto first = first_failure(end, outcomes, policy);
  bool is_first = first && policy.code_of(*first) == code;
  auto main = outcomes.of(policy.main());
  bool is_main = main && policy.code_of(*main) == code;
  switch (policy.kind()) {
    case Policy::Kind::max: return is_first ? "the cause" : largest(outcomes, policy, code);
    case Policy::Kind::first: return is_first ? "the first task that failed" : largest(outcomes, policy, code);
    case Policy::Kind::all: return "not all tasks succeeded";
    case Policy::Kind::main:
    case Policy::Kind::main_and_all: break;
  }
  if (is_main) return fmt::format("task {}, the main rank", policy.main());
  return policy.kind() == Policy::Kind::main ? "the main rank has no exit code of its own"
                                             : "not all tasks succeeded";
}

Json rule(const JobEnd& end, const Outcomes& outcomes, const Policy& policy) {
  Json out{{"main", policy.main()}};
  if (!policy.ok().empty()) out["ok"] = policy.ok().str();
  if (auto first = first_failure(end, outcomes, policy)) out["first"] = first->str();
  if (end.least() > 0) out["least"] = end.least();
  if (end.fixed(outcomes, policy)) out["fixed"] = true;
  return out;
}

}  // namespace

Json summary(const JobEnd& end, const Outcomes& reported, const Policy& policy, int code) {
  Outcomes outcomes = end.known(reported);
  Json tasks = Json::object();
  for (const auto& [record, ranks] : outcomes.classes()) tasks[record.str()] = ranks.str();
  Json out{{"exit",
            {{"code", code},
             {"policy", Policy::name_of(policy.kind())},
             {"main", policy.main()},
             {"by", reason(end, outcomes, policy, code)}}},
           {"tasks", std::move(tasks)},
           {"rule", rule(end, outcomes, policy)}};
  if (end.cause()) out["cause"] = end.cause()->message;
  return out;
}

}  // namespace nacre::exits
