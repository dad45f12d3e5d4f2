// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "job/job.hpp"

namespace nacre::job {

bool Job::is_spare(std::uint32_t shell) const {
  return shell >= nodes() && shell < shells() && has_come(shell) &&
         std::none_of(moves.begin(), moves.end(), [&](const Move& each) { return each.to == shell; });
}

value::Idset Job::spare_shells() const {
  value::Idset out;
  for (std::uint32_t shell = nodes(); shell < shells(); ++shell) {
    if (is_spare(shell)) out.insert(shell);
  }
  return out;
}

value::Idset Job::all_ranks() const { return value::Idset::range(0, static_cast<value::Idset::Id>(tasks() - 1)); }

value::Idset Job::shells_that_came() const {
  value::Idset out;
  for (std::uint32_t shell = 0; shell < shells(); ++shell) {
    if (has_come(shell)) out.insert(shell);
  }
  return out;
}

void Job::grow(std::vector<NodeResources> more) {
  for (NodeResources& each : more) add_node(resources, std::move(each));
  shares.resize(shells());
  spares += static_cast<std::uint32_t>(more.size());
}

void Job::move(Move tasks) {
  std::vector<std::uint32_t> node_of(taskmap.tasks());
  for (std::uint32_t shell = 0; shell < shells(); ++shell) {
    for (value::Idset::Id rank : taskmap.ranks_on(shell).ids()) node_of[rank] = shell;
  }
  for (value::Idset::Id rank : tasks.ranks.ids()) node_of[rank] = tasks.to;
  taskmap = value::Taskmap::of(node_of);
  moves.push_back(std::move(tasks));
  ++restarts;
}

void Job::start_again(const value::Idset& ranks) {
  for (value::Idset::Id rank : ranks.ids()) starts[rank] = attempt_of(rank) + 1;
  ++restarts;
}

std::uint32_t Job::attempt_of(value::Idset::Id rank) const {
  auto last =
      std::find_if(moves.rbegin(), moves.rend(), [&](const Move& each) { return each.ranks.contains(rank); });
  auto here = starts.find(rank);
  return std::max(last == moves.rend() ? 1 : last->attempt, here == starts.end() ? 1 : here->second);
}

bool Job::has_had(std::uint32_t shell, value::Idset::Id rank) const {
  return taskmap.node_of(rank) == shell || std::any_of(moves.begin(), moves.end(), [&](const Move& each) {
           return each.from == shell && each.ranks.contains(rank);
         });
}

bool Job::tasks_have_left(std::uint32_t shell) const {
  return std::any_of(moves.begin(), moves.end(), [shell](const Move& each) { return each.from == shell; });
}

std::uint32_t Job::stands_for(std::uint32_t shell) const {
  for (auto each = moves.begin(); shell >= nodes() && each != moves.end();) {
    each = std::find_if(moves.begin(), moves.end(), [&](const Move& move) { return move.to == shell; });
    if (each != moves.end()) shell = each->from;
  }
  return shell;
}

}  // namespace nacre::job
