// SPDX-License-Identifier: Apache-2.0
//
// All that a node knows: as a copy, and as a text in which two nodes are equal if they go on alike.
#pragma once

#include "overlay/node.hpp"

namespace nacre::overlay {

// Each function names all members of a class, in a binding that does not compile when the class gets one more.
struct NodeState {
  // Both may be called between two calls of the node, once its effects have been taken.
  static std::unique_ptr<Node> copy(const Node& from);
  // Times are relative to `now`; a time that has passed for good is written as such. For a job without collectives.
  static std::string text(const Node& node, Time now);

  static Time due(const Node& node) { return node.out_.due; }
  static bool elects(const Node& node) { return node.election_.is_open(); }
  static bool withholds(const Node& node) { return !node.withheld_.empty(); }

 private:
  class Writer;
  static auto parts(auto& node);
  static auto parts_of_pulse(auto& pulse);
  static auto parts_of_uplink(auto& uplink);
  static auto parts_of_children(auto& table);
};

}  // namespace nacre::overlay
