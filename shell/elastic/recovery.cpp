// SPDX-License-Identifier: Apache-2.0
#include "elastic/recovery.hpp"

#include <algorithm>
#include <map>

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
  out.first_failed.insert(first.rank);
  out.doubt = message.doubt;
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
  if (out.is_granted()) start_together(out, message.shell);
  return out;
}

// A move for each start: tasks may have started again where they were, some more often than others.
std::vector<job::Move> Recovery::moves_of(const value::Idset& ranks, std::uint32_t from, std::uint32_t to,
                                          std::uint32_t more) const {
  std::map<std::uint32_t, value::Idset> by_start;
  for (value::Idset::Id rank : ranks.ids()) by_start[job_.attempt_of(rank) + more].insert(rank);
  std::vector<job::Move> out;
  for (const auto& [attempt, which] : by_start) out.push_back({which, from, to, attempt});
  return out;
}

void Recovery::note(const std::vector<job::Move>& moves) {
  const std::uint64_t restarts = job_.restarts;
  for (const job::Move& each : moves) job_.move(each);
  job_.restarts = restarts;
}

// It is one restart, wherever they start.
void Recovery::start_together(RestartDecision& decision, std::uint32_t shell) {
  value::Idset moved;
  if (shares_cores_ && decision.whole && !decision.ordered) {
    value::Idset ranks = job_.taskmap.ranks_on(shell);
    if (auto spare = spare_for(shell, ranks)) {
      decision.places.moves = moves_of(ranks, shell, *spare, 1);
      moved = std::move(ranks);
    } else {
      decision.places.why = spare.error().message;
    }
  }
  note(decision.places.moves);
  job_.start_again(decision.together - moved);
}

// Not a shell that tasks have left, as one has failed there, or it was lost.
Result<std::uint32_t> Recovery::spare_for(std::uint32_t shell, const value::Idset& ranks) const {
  auto room = [this](std::uint32_t id) {
    const job::NodeResources& node = job_.resources.nodes[id];
    return Replacements::Room{node.cores.size(), node.gpus.size()};
  };
  const Replacements::Room needed = Replacements::needed(job_, shell, ranks, *shares_cores_);
  const std::uint64_t cores = ranks.size() * job_.spec.cores_per_slot;
  for (const job::Move& each : job_.moves) {
    if (each.from != shell || each.to == shell || needed.gpus > 0) continue;
    if (!stays_(each.to) || job_.tasks_have_left(each.to)) continue;
    std::uint64_t used = job_.taskmap.tasks_on(each.to) * job_.spec.cores_per_slot;
    if (*shares_cores_ || used + cores <= room(each.to).cores) return each.to;
  }
  std::vector<Replacements::Spare> spares;
  for (std::uint32_t id : job_.spare_shells().ids()) {
    if (stays_(id)) spares.push_back({id, room(id)});
  }
  return Replacements().choose(spares, needed);
}

SparePlaces Recovery::place(const SpareRequest& asked) {
  SparePlaces out;
  value::Idset waiting;
  for (const auto& [rank, attempt] : asked.starts) {
    if (stays_(asked.shell) && job_.taskmap.node_of(rank) == asked.shell && job_.attempt_of(rank) == attempt)
      waiting.insert(rank);
  }
  std::vector<value::Idset> groups;
  for (value::Idset::Id rank : waiting.ids()) {
    if (groups.empty() || !asked.together) groups.emplace_back();
    groups.back().insert(rank);
  }
  for (const value::Idset& group : groups) {
    auto spare = spare_for(asked.shell, group);
    if (!spare) {
      out.stay.insert(group);
      out.why = spare.error().message;
      continue;
    }
    std::vector<job::Move> moves = moves_of(group, asked.shell, *spare, 0);
    note(moves);
    for (job::Move& each : moves) {
      bool is_alike =
          !out.moves.empty() && out.moves.back().to == each.to && out.moves.back().attempt == each.attempt;
      is_alike ? out.moves.back().ranks.insert(each.ranks) : out.moves.push_back(std::move(each));
    }
  }
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
  bool stands =
      all.restarts == job_.restarts &&
      std::all_of(moves.begin(), moves.end(), [this](const job::Move& each) { return may_take(each.to); });
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
