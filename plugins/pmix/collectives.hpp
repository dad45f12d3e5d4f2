// SPDX-License-Identifier: Apache-2.0
//
// Operations that processes of several nodes take part in together. A node gives its part when all of its processes that take part have come;
// when each such node has, everybody gets all parts. A node whose processes have ended is not waited for.
//
// Fed with the same messages in the same order, each node comes to the same result.
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
  // The first status of a part that is not 0; what the nodes have given, in their order.
  using Done = std::function<void(int status, const std::string& all)>;

  // The ranks on each node, and which node this is.
  Collectives(std::vector<std::vector<Rank>> nodes, std::size_t here);

  // Those of the same kind and the same participants follow each other. `ranks` empty: all.
  static std::string name_of(char kind, const std::vector<Rank>& ranks);

  // This node's processes have come, and its part is told to all: `done` is called when everybody's has been heard of.
  void enter(const std::string& name, Done done);

  // What is heard. Of collectives that this node has no part in, nothing is kept.
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
    std::map<std::size_t, std::deque<Part>> parts;          // by node: one for each time that it came
    std::deque<Done> waiting;
  };

  Collective* find(const std::string& name);  // nullptr: none, or without this node
  [[nodiscard]] bool is_missing(const Collective& collective, std::size_t node) const;
  static bool is_idle(const Collective& collective);
  bool complete(Collective& collective);
  void look_at_all();

  std::vector<std::vector<Rank>> nodes_;
  std::map<Rank, std::size_t> node_of_;
  std::size_t here_;
  std::set<Rank> ended_;
  std::map<std::string, Collective> collectives_;
};

}  // namespace nacre::pmix
