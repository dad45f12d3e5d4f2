// SPDX-License-Identifier: Apache-2.0
//
// How the tasks of each node get on, and which node is slow: its tasks get far less of the cpu time that they could
// use than those of the others, or have written far less. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/facts.hpp"
#include "value/idset.hpp"

namespace nacre::doctor {

// Of the tasks of one node that have not ended.
struct NodePace {
  std::uint32_t shell = 0;
  std::string host;
  value::Idset ranks;
  Range cpu;  // as TaskGroup has it; likewise those below
  Range ready;
  Range bytes;

  void add(const TaskGroup& group);
};

struct SlowNode {
  const NodePace* node = nullptr;
  std::string evidence;
};

// What those who judge by more than one look share with slow_nodes().
inline constexpr double kLeastWanted = 0.5;  // of a cpu, for each task: less is no hurry
inline constexpr double kServed = 0.9;       // of the cpu time that tasks could use, where a node is well
// Few enough of so many nodes that it is they who are slow.
[[nodiscard]] bool is_few(std::size_t slow, std::size_t nodes);

// None, unless it is clear: few nodes are slow, and all others get on well. By cpu time two nodes can be compared,
// by output three: what one of two has written shows nothing.
[[nodiscard]] std::vector<SlowNode> slow_nodes(const std::vector<NodePace>& nodes);

}  // namespace nacre::doctor
