// SPDX-License-Identifier: Apache-2.0
//
// Operations in which processes of several nodes take part together. A node gives its part when all its
// participants have come; when each such node has given it, all nodes get all parts. A node whose processes have
// ended is not waited for. Ranks are numbers of ProcessMap.
//
// All nodes pass in the same messages in the same order, so each comes to the same result.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "peer_message.hpp"

namespace nacre::pmix {

class Collectives {
 public:
  // `status`: the first status of a part that is not 0; `all`: the nodes' parts, in the order of the nodes.
  using Done = std::function<void(int status, const std::string& all)>;

  // The ranks on each node, and the index of this node.
  Collectives(std::vector<std::vector<Rank>> nodes, std::size_t here);

  // More ranks, of a namespace that has been spawned.
  void add(std::size_t node, const std::vector<Rank>& ranks);

  // Collectives of the same kind and the same participants come one after the other. `ranks` empty: all
  // that there were at the start.
  static std::string name_of(char kind, const std::vector<Rank>& ranks);

  // This node's processes have come, and its part is being sent to all: `done` is called when all parts have been
  // received.
  void enter(const std::string& name, Done done);

  // A part has been received. Nothing is kept for collectives in which this node has no part.
  void part(std::size_t node, const std::string& name, int status, std::string bytes);
  void ended(Rank rank);
  void over(std::size_t node);

 private:
  struct Part {
    int status = 0;
    std::string bytes;
  };
  struct Collective {
    std::map<std::size_t, std::vector<Rank>> participants;  // by node
    std::map<std::size_t, std::deque<Part>> parts;          // by node; one for each time that its participants came
    std::deque<Done> waiting;
  };

  Collective* find(const std::string& name);  // nullptr: there is none, or this node takes no part
  [[nodiscard]] bool is_missing(const Collective& collective, std::size_t node) const;
  static bool is_idle(const Collective& collective);
  bool complete(Collective& collective);
  void look_at_all();

  std::vector<std::vector<Rank>> nodes_;
  std::map<Rank, std::size_t> node_of_;
  Rank first_added_ = 0;  // the ranks of the start are below
  std::size_t here_;
  std::set<Rank> ended_;
  std::map<std::string, Collective> collectives_;
};

}  // namespace nacre::pmix
