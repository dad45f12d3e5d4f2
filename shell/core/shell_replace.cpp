// SPDX-License-Identifier: Apache-2.0
#include "core/shell_replace.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/shell.hpp"
#include "elastic/recovery.hpp"
#include "job/options.hpp"
#include "plugin/questions.hpp"

namespace nacre::core {

Result<void> ShellReplace::serve() {
  auto chosen = TRY(job::OnLost::read(host_.options()));
  takes_any_ = TRY(job::RestartOption::read(host_.options())).where == job::RestartOption::Where::any;
  if (takes_any_ && !chosen.replaces)
    return host_.options().at("restart")->error(
        "where=any is for the tasks of a lost shell, which start again with on-lost=replace only: give that, too");
  restart_.when_moved([this](const std::vector<job::Move>& moves) { note_due(moves); });
  if (!chosen.replaces || !shells_.may_have_others()) return {};
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kTopic) announced(bytes);
  });
  if (shells_.leads()) shells_.when_lost_with_tasks([this](group::Rank shell) { return lost(shell); });
  return {};
}

// ---- the leader's ------------------------------------------------------------------------------

bool ShellReplace::lost(group::Rank shell) {
  if (host_.ending()) return false;
  restart_.answers().loss_opens(shell);
  value::Idset asked;
  for (std::uint32_t each = 1; each < job_.shells(); ++each) {
    if (shells_.roster().stays(each) && !shells_.all_tasks().unfinished_on(each).empty()) asked.insert(each);
  }
  shrink_.ask_connected(asked, [this, shell](const ShrinkQuestion::Connected& connected) {
    decide(shell, connected.tasks | plugin::pmi_connected(host_, ""));
  });
  return true;
}

// Much may have happened since the shell was lost.
void ShellReplace::decide(group::Rank shell, const value::Idset& connected) {
  value::Idset ranks = shells_.all_tasks().unfinished_on(shell);
  if (ranks.empty() || host_.ending()) return give_up(shell, "");
  auto takes_all = restart_.takes_all_with_lost(connected);
  if (!takes_all) return give_up(shell, takes_all.error().message);
  if (Result<void> replaced = replace(shell, ranks, *takes_all); !replaced)
    give_up(shell, replaced.error().message);
}

void ShellReplace::give_up(group::Rank shell, const std::string& why) {
  shells_.give_up(shell, why);
  restart_.answers().loss_closes(shell);
}

Result<void> ShellReplace::replace(group::Rank shell, const value::Idset& ranks, bool takes_all) {
  std::vector<std::uint32_t> shells = TRY(choose(shell, ranks));
  // By shell and start: they may have started again there, each so often.
  std::map<std::pair<std::uint32_t, std::uint32_t>, value::Idset> moves;
  std::vector<Rank> each = ranks.ids();
  for (std::size_t i = 0; i < each.size(); ++i) moves[{shells[i], job_.attempt_of(each[i]) + 1}].insert(each[i]);
  elastic::Replacement what;
  for (const auto& [where, moved] : moves) {
    auto [to, attempt] = where;
    shells_.all_tasks().expect(moved, attempt);
    what.moves.push_back({moved, shell, to, attempt});
  }
  if (takes_all) what.all = restart_.all_with_lost();
  Result<void> sent = host_.announce(kTopic, what.text());
  if (sent) return {};
  for (const auto& [where, moved] : moves) replacements_.ordered(where.first, moved.size());
  return sent;
}

// One for each of the ranks.
Result<std::vector<std::uint32_t>> ShellReplace::choose(group::Rank shell, const value::Idset& ranks) {
  auto most = elastic::Starts(job_.tasks()).most();
  for (Rank rank : ranks.ids()) {
    if (job_.attempt_of(rank) >= most)
      return Error{ERANGE, fmt::format("rank {} has started {} times, and no more is possible", rank, most)};
  }
  auto spare = replacements_.choose(
      spares(), elastic::Replacements::needed(job_, shell, ranks, shares_cores(host_.options())));
  if (spare) return std::vector<std::uint32_t>(ranks.size(), *spare);
  if (!takes_any_) return spare.error();
  if (job_.spec.gpus_per_slot > 0)
    return Error{ENOENT, spare.error().message + ", and tasks with gpus of their own go to spares only"};
  auto spread = replacements_.spread(others(), ranks.size());
  if (!spread) return Error{ENOENT, fmt::format("{}, and {}", spare.error().message, spread.error().message)};
  return spread;
}

// Shell 0 is the last of those that have as many tasks: without it the job ends.
std::vector<elastic::Replacements::Other> ShellReplace::others() const {
  std::vector<elastic::Replacements::Other> out;
  for (std::uint32_t i = 1; i <= job_.shells(); ++i) {
    std::uint32_t shell = i % job_.shells();
    if (!shells_.roster().stays(shell)) continue;
    std::uint64_t tasks = shells_.all_tasks().unfinished_on(shell).size();
    std::uint64_t room = job_.resources.nodes[shell].all_cores().size() / job_.spec.cores_per_slot;
    out.push_back({shell, tasks, shares_cores(host_.options()) ? job_.tasks() : room - std::min(room, tasks)});
  }
  return out;
}

std::vector<elastic::Replacements::Spare> ShellReplace::spares() const {
  std::vector<elastic::Replacements::Spare> out;
  for (std::uint32_t shell : job_.spare_shells().ids()) {
    const job::NodeResources& node = job_.resources.nodes[shell];
    if (shells_.roster().stays(shell)) out.push_back({shell, {node.cores.size(), node.gpus.size()}});
  }
  return out;
}

// ---- every shell's -----------------------------------------------------------------------------

void ShellReplace::announced(std::string_view bytes) {
  auto what = elastic::Replacement::parse(bytes, job_.shells(), job_.tasks());
  if (!what)
    return host_.log().log(Level::warn, "", "on-lost: an announcement that this version does not understand");
  for (const job::Move& each : what->moves) {
    if (shells_.leads()) replacements_.ordered(each.to, each.ranks.size());
  }
  what->all ? moved_with_all(*what) : moved_alone(*what);
}

void ShellReplace::moved_alone(const elastic::Replacement& what) {
  const value::Idset spares = job_.spare_shells();
  auto moves =
      elastic::Recovery::move(job_, what.moves, [this](std::uint32_t shell) { return restart_.may_take(shell); });
  note_due(moves);
  if (!moves.empty()) shells_.moved(moves, spares);
  if (!shells_.leads()) return;
  moves.size() < what.moves.size() ? decide(what.from(), {}) : restart_.answers().loss_closes(what.from());
}

// One decision: either all of it has an effect, or nothing.
void ShellReplace::moved_with_all(const elastic::Replacement& what) {
  auto decision = restart_.start_with_lost(what);
  if (decision && decision->is_granted()) note_due(what.moves);
  if (!shells_.leads()) return;
  if (!decision) {
    if (!lost(what.from())) give_up(what.from(), "");
  } else if (decision->is_granted()) {
    restart_.answers().loss_closes(what.from());
  } else {
    give_up(what.from(), decision->why_not);
  }
}

void ShellReplace::note_due(const std::vector<job::Move>& moves) {
  for (const job::Move& each : moves) {
    if (each.to != job_.shell_rank) continue;
    due_.push_back(each);
    restart_.come(each.ranks);
  }
}

Result<void> ShellReplace::take_over() {
  job::Move move = std::move(due_.front());
  due_.pop_front();
  move.ranks = move.ranks & job_.taskmap.ranks_on(job_.shell_rank);  // they may have gone on to a spare
  if (move.ranks.empty()) return {};
  // All may have been told to start again meanwhile.
  std::uint32_t attempt = job_.attempt_of(*move.ranks.first());
  CHECK_OK(tasks_.make(move.ranks, attempt, job_.restarts));
  plugin::Call call("shell.take-over");
  call.in = {{"ranks", move.ranks.str()}, {"from", move.from}, {"try", attempt}};
  TRY(host_.stack().call(call));
  return {};
}

}  // namespace nacre::core
