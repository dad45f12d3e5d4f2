// SPDX-License-Identifier: Apache-2.0
//
// Where all processes of the job are: its tasks, and those of each namespace that has been spawned. Each has a
// number of its own among all of them: a task its rank, others what their namespace's offset adds to theirs. All
// nodes add the same namespaces in the same order, so numbers mean the same on all.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "peer_message.hpp"

namespace nacre::pmix {

class ProcessMap {
 public:
  struct Place {
    const std::string* nspace = nullptr;
    Rank rank = 0;
    std::uint32_t node = 0;
  };
  using RanksByNode = std::map<std::uint32_t, std::vector<Rank>>;

  void add(const std::string& nspace, Rank offset, const RanksByNode& nodes);

  [[nodiscard]] bool knows(const std::string& nspace) const { return offsets_.count(nspace) > 0; }
  // The numbers of one process, or of all of a namespace; empty: it is not known.
  [[nodiscard]] std::optional<Rank> number_of(const std::string& nspace, Rank rank) const;
  [[nodiscard]] std::vector<Rank> numbers_of(const std::string& nspace) const;
  [[nodiscard]] const Place* find(Rank number) const;  // nullptr: it is not known
  [[nodiscard]] std::vector<Rank> numbers_on(std::uint32_t node) const;
  [[nodiscard]] std::set<std::uint32_t> nodes_of(const std::string& nspace) const;

 private:
  std::map<std::string, Rank> offsets_;
  std::map<Rank, Place> places_;
};

}  // namespace nacre::pmix
