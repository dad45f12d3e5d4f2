// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include <algorithm>

namespace nacre::elastic {

// Something else may have come before it: the end of the job, or of the shell, or a restart of all tasks.
bool Recovery::stands(std::uint32_t shell, const RestartEnd& end) const {
  return stays_(shell) && end.rank < job_.tasks() && job_.taskmap.node_of(end.rank) == shell &&
         job_.attempt_of(end.rank) == end.attempt;
}

RestartDecision Recovery::decide(const RestartEnd& end, bool ordered) {
  RestartDecision out{value::Idset::range(end.rank, end.rank), end.record, end.attempt + 1};
  out.ordered = ordered;
  if (!ordered) {
    auto granted = restarts_.take(end.rank, end.ran);
    if (!granted) {
      out.why_not = granted.error().message;
      return out;
    }
    out.delay = granted->delay;
    out.first = out.last = granted->number;
  }
  job_.start_again(out.ranks);
  return out;
}

Recovery::Alone Recovery::decide(const RestartMessage& asked) {
  Alone out;
  for (const RestartEnd& each : asked.ends) {
    if (!stands(asked.shell, each)) {
      out.fallen.insert(each.rank);
    } else if (!asked.whole) {
      RestartDecision decision = decide(each, asked.ordered);
      if (!out.decisions.empty() && out.decisions.back().takes_in(decision)) {
        out.decisions.back().ranks.insert(decision.ranks);
        out.decisions.back().last = decision.last;
      } else {
        out.decisions.push_back(std::move(decision));
      }
    }
  }
  return out;
}

RestartDecision Recovery::decide_together(const RestartMessage& message) {
  const RestartEnd& first = message.ends.front();
  RestartDecision out{{}, first.record};
  out.why_not = message.why_not;
  out.whole = message.whole;
  out.ordered = message.ordered;
  for (const RestartEnd& each : message.ends) {
    out.ranks.insert(each.rank);
    out.stands = out.stands && stands(message.shell, each);
  }
  if (out.is_granted() && !message.ordered) {
    auto granted = message.whole ? restarts_.take_job(first.ran) : restarts_.take_node(message.shell, first.ran);
    out.why_not = granted ? "" : granted.error().message;
    out.delay = granted ? granted->delay : 0;
    out.first = out.last = granted ? granted->number : 0;
  }
  out.together = message.whole ? job_.all_ranks() : job_.taskmap.ranks_on(message.shell);
  if (out.is_granted()) job_.start_again(out.together);
  return out;
}

std::optional<RestartDecision> Recovery::decide_order(const RestartMessage& answer) {
  if (answer.restarts != job_.restarts) return std::nullopt;
  RestartDecision out{job_.all_ranks(), exits::Record::victim(std::nullopt)};
  out.whole = out.ordered = true;
  out.together = out.ranks;
  job_.start_again(out.together);
  return out;
}

std::vector<job::Move> Recovery::move(job::Job& job, std::vector<job::Move> moves, const Stays& stays) {
  std::erase_if(moves, [&](const job::Move& each) { return !stays(each.to); });
  const std::uint64_t restarts = job.restarts + (moves.empty() ? 0 : 1);  // together
  for (const job::Move& each : moves) job.move(each);
  job.restarts = restarts;
  return moves;
}

std::optional<RestartDecision> Recovery::decide_replacement(const Replacement& replacement) {
  const std::vector<job::Move>& moves = replacement.moves;
  const Replacement::All& all = *replacement.all;
  bool stands = all.restarts == job_.restarts &&
                std::all_of(moves.begin(), moves.end(), [this](const job::Move& each) { return stays_(each.to); });
  if (!stands) return std::nullopt;
  RestartDecision out{replacement.ranks(), exits::Record::lost()};
  out.whole = true;
  out.together = job_.all_ranks();
  if (all.delay) {
    out.delay = *all.delay;
    out.first = out.last = restarts_.used();
  } else {
    auto granted = restarts_.take_job(all.ran);
    out.why_not = granted ? "" : granted.error().message;
    out.delay = granted ? granted->delay : 0;
    out.first = out.last = granted ? granted->number : 0;
  }
  if (!out.is_granted()) return out;
  const std::uint64_t restarts = job_.restarts + 1;  // one, whatever it is for each of them
  for (const job::Move& each : moves) job_.move(each);
  job_.start_again(out.together - out.ranks);
  job_.restarts = restarts;
  return out;
}

}  // namespace nacre::elastic
