// SPDX-License-Identifier: Apache-2.0
#include "bulk/origin_table.hpp"

#include <fmt/format.h>

namespace nacre::bulk {

Result<bool> OriginTable::came(const Head& head, Route from) {
  auto found = origins_.find(origin_of(head));
  if (found == origins_.end()) {
    if (origins_.size() >= most_) {
      return Error{ENOSPC, fmt::format("records of more than {} origins; see Limits::origins", most_)};
    }
    found = origins_.emplace(origin_of(head), Origin{}).first;
  }
  Origin& origin = found->second;
  if (attempt_of(head) < origin.attempt) return false;
  origin.attempt = attempt_of(head);
  origin.route = from;
  return true;
}

std::optional<OriginTable::Route> OriginTable::route(Id origin) const {
  auto found = origins_.find(origin);
  if (found == origins_.end()) return std::nullopt;
  return found->second.route;
}

OriginTable::Verdict OriginTable::judge(Id origin, Numbered number) {
  Origin& of = origins_[origin];
  if (number <= of.delivered) return Verdict::again;
  if (number > of.delivered + 1) return Verdict::ahead;
  of.delivered = number;
  return Verdict::next;
}

void OriginTable::delivered(Id origin, Numbered number, Route from, std::size_t bytes, bool is_answer) {
  origins_[origin].waiting.push_back({number, {from, bytes}, is_answer});
}

std::optional<OriginTable::Credit> OriginTable::take(Id origin, Numbered number) {
  auto found = origins_.find(origin);
  if (found == origins_.end()) return std::nullopt;
  Origin& of = found->second;
  if (of.waiting.empty() || of.waiting.front().number > number) return std::nullopt;
  Credit credit = of.waiting.front().credit;
  of.taken = of.waiting.front().number;
  if (of.waiting.front().is_answer) {
    of.unnoted_answers += credit.bytes;
  } else {
    of.unnoted_others = true;
  }
  of.waiting.pop_front();
  return credit;
}

bool OriginTable::note_is_due(Id origin, std::size_t most_answers) {
  Origin& of = origins_[origin];
  if (!of.unnoted_others && of.unnoted_answers <= most_answers) return false;
  of.unnoted_answers = 0;
  of.unnoted_others = false;
  return true;
}

Numbered OriginTable::taken(Id origin) const {
  auto found = origins_.find(origin);
  return found == origins_.end() ? 0 : found->second.taken;
}

}  // namespace nacre::bulk
