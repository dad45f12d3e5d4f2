// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include <algorithm>

#include "base/json.hpp"

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

std::string text_of(const std::vector<job::Move>& moves) {
  Json list = Json::array();
  for (const job::Move& each : moves)
    list.push_back({{"to", each.to}, {"ranks", each.ranks.str()}, {"try", each.attempt}});
  return dump_json({{"from", moves.front().from}, {"moves", std::move(list)}});
}

Result<std::vector<job::Move>> parse_moves(std::string_view text, std::uint32_t shells, std::uint64_t tasks) {
  Json json = TRY(parse_json(text));
  JsonAt what = JsonAt::root(json);
  const std::int64_t last = std::int64_t{shells} - 1;
  auto from = static_cast<std::uint32_t>(TRY(TRY(what.at("from")).integer(0, last)));
  std::vector<job::Move> out;
  for (const JsonAt& each : TRY(TRY(what.at("moves")).elements())) {
    auto ranks = TRY(value::Idset::parse(TRY(TRY(each.at("ranks")).string())));
    if (ranks.empty() || *ranks.last() >= tasks) return each.expected("ranks of the job");
    auto to = static_cast<std::uint32_t>(TRY(TRY(each.at("to")).integer(0, last)));  // see group/statements.cpp
    auto attempt = static_cast<std::uint32_t>(TRY(TRY(each.at("try")).integer(1, UINT32_MAX - 1)));
    out.push_back({ranks, from, to, attempt});
  }
  if (out.empty()) return what.expected("at least one move");
  return out;
}

}  // namespace nacre::elastic
