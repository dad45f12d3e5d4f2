// SPDX-License-Identifier: Apache-2.0
#include "job_losses.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "elastic/recovery.hpp"
#include "job_elastic.hpp"
#include "job_leader.hpp"
#include "job_shell.hpp"

namespace nacre::sim {
namespace {

constexpr std::uint64_t kMostQuestion = 2'000'000;  // microseconds that the other shells are asked for PMI

}  // namespace

void JobLosses::lost(Id shell) {
  if (elastic_.replica().changes().replaces && !decides_) return undecided_.insert(shell);
  decide(shell);
}

void JobLosses::decide_all() {
  decides_ = true;
  for (Id shell : std::exchange(undecided_, {}).ids()) decide(shell);
}

void JobLosses::decide(Id shell) {
  if (elastic_.unfinished_on(shell).empty() || !elastic_.replica().changes().replaces ||
      shell_.ending().is_ending())
    return give_up(shell);
  open_.insert(shell);
  leader_.answers().hold();
  Time asks(shell_.process().world().random.one_in(2) ? 0 : shell_.process().world().random.in(0, kMostQuestion));
  shell_.process().later(asks, [this, shell] { replace(shell); });
}

void JobLosses::give_up(Id shell) {
  const job::Job& job = elastic_.replica().job();
  bool is_left = job.taskmap.tasks_on(shell) == 0 && job.tasks_have_left(shell);
  Idset tasks = elastic_.unfinished_on(shell);
  bool ends = !shell_.process().plan().tolerant && !job.is_spare(shell) && !is_left &&
              !(tasks.empty() && elastic_.replica().changes().replaces);
  Idset fresh = tasks - shell_.records().all().ranks();
  if (!fresh.empty()) shell_.records().lose(shell_.process().world().now, fresh);
  leader_.restarts().done_with(fresh);
  close(shell);
  exits::Cause cause{fmt::format("shell {} is lost", shell), std::nullopt, shell_.process().id()};
  if (!ends)
    return shell_.group().ask(
        group::encode(group::JobException{"node-failure", 2, cause.message, cause.code, 0}));
  shell_.process().witness().failed(shell_.process().id(), cause, true);
  shell_.ending().end_job(cause, "node-failure");
}

void JobLosses::close(Id shell) {
  open_.remove(shell);
  if (open_.empty()) leader_.answers().go_on();
}

// Much may have happened since the shell was lost.
void JobLosses::replace(Id from) {
  const job::Job& job = elastic_.replica().job();
  Idset ranks = elastic_.unfinished_on(from);
  if (ranks.empty() || shell_.ending().is_ending()) return give_up(from);
  bool takes_all =
      elastic_.replica().changes().restarts && elastic_.replica().changes().scope == job::RestartOption::Scope::job;
  if (takes_all && !leader_.answers().why_not_whole().empty()) return give_up(from);
  std::vector<elastic::Replacements::Spare> spares;
  for (Id shell : job.spare_shells().ids()) {
    if (elastic_.replica().roster().stays(shell))
      spares.push_back({shell, {job.resources.nodes[shell].cores.size(), 0}});
  }
  std::vector<std::uint32_t> to;
  if (auto spare = replacements_.choose(spares, {ranks.size(), 0})) {
    to.assign(ranks.size(), *spare);
  } else if (elastic_.replica().changes().takes_any) {
    std::vector<elastic::Replacements::Other> others;
    for (Id i = 1; i <= job.shells(); ++i) {
      Id shell = i % job.shells();
      if (!elastic_.replica().roster().stays(shell)) continue;
      std::uint64_t tasks = elastic_.unfinished_on(shell).size();
      std::uint64_t room = job.resources.nodes[shell].cores.size();
      others.push_back({shell, tasks, room - std::min(room, tasks)});
    }
    if (auto spread = replacements_.spread(others, ranks.size())) to = *std::move(spread);
  }
  if (to.empty()) return give_up(from);
  std::map<std::pair<Id, std::uint32_t>, Idset> each;
  for (std::size_t i = 0; Id rank : ranks.ids()) each[{to[i++], job.attempt_of(rank) + 1}].insert(rank);
  elastic::Replacement what;
  for (const auto& [where, which] : each) {
    leader_.expect(which, where.second);
    what.moves.push_back({which, from, where.first, where.second});
  }
  if (takes_all) what.all = {job.restarts, 0, elastic_.restart().whole().delay()};
  shell_.group().announce("shell.replace", what.text());
}

void JobLosses::replaced(const std::vector<job::Move>& moves) {
  for (const job::Move& each : moves) replacements_.ordered(each.to, each.ranks.size());
}

}  // namespace nacre::sim
