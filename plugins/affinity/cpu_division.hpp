// SPDX-License-Identifier: Apache-2.0
//
// How units (cores, or larger or smaller ones) are divided among tasks. Pure.
//
// With at least as many units as tasks, each task gets at least the even share, rounded down, and no unit is
// another's too. Groups, such as NUMA nodes, are nested: no task has units of several groups if all even shares
// fit into groups without that. So a share may be larger than the even one, and units of a group in which no share
// fits may be left over. With fewer units than tasks each task gets one; the tasks are shared out by the units'
// weights.
#pragma once

#include <cstddef>
#include <vector>

namespace nacre::plugins {

struct Units {
  std::vector<std::size_t> weights;  // of each unit, in the order of neighbours: how many cores it has; above 0
  // For each kind of group, by unit, the number of the group that it is in. Neighbours of one number are a group.
  std::vector<std::vector<std::size_t>> groups;
};

// For each task its units, ascending; the tasks are ordered by their first units. `tasks` and the units: at least
// 1.
[[nodiscard]] std::vector<std::vector<std::size_t>> divide(const Units& units, std::size_t tasks);

}  // namespace nacre::plugins
