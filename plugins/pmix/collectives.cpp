// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"

#include <algorithm>

#include "layout.hpp"

namespace nacre::pmix {
namespace {

constexpr std::string_view kAll = "*";

}  // namespace

Collectives::Collectives(std::vector<std::vector<Rank>> nodes, std::size_t here)
    : nodes_(std::move(nodes)), here_(here) {
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    for (Rank rank : nodes_[node]) node_of_[rank] = node;
  }
  if (!node_of_.empty()) first_added_ = node_of_.rbegin()->first + 1;
}

void Collectives::add(std::size_t node, const std::vector<Rank>& ranks) {
  if (node >= nodes_.size()) nodes_.resize(node + 1);
  nodes_[node].insert(nodes_[node].end(), ranks.begin(), ranks.end());
  for (Rank rank : ranks) node_of_[rank] = node;
}

std::string Collectives::name_of(char kind, const std::vector<Rank>& ranks) {
  return kind + (ranks.empty() ? std::string(kAll) : text_of(ranks));
}

Collectives::Collective* Collectives::find(const std::string& name) {
  if (auto known = collectives_.find(name); known != collectives_.end()) return &known->second;
  if (name.empty()) return nullptr;
  Collective collective;
  std::string_view members = std::string_view(name).substr(1);
  if (members == kAll) {
    for (const auto& [rank, node] : node_of_) {
      if (rank < first_added_) collective.participants[node].push_back(rank);
    }
  } else {
    for (Rank rank : ranks_in(members).value_or(std::vector<Rank>())) {
      if (auto node = node_of_.find(rank); node != node_of_.end()) {
        collective.participants[node->second].push_back(rank);
      }
    }
  }
  if (collective.participants.count(here_) == 0) return nullptr;
  return &collectives_.emplace(name, std::move(collective)).first->second;
}

void Collectives::enter(const std::string& name, Done done) {
  Collective* collective = find(name);
  if (collective != nullptr) collective->waiting.push_back(std::move(done));
}

void Collectives::part(std::size_t node, const std::string& name, int status, std::string bytes) {
  Collective* collective = find(name);
  if (collective == nullptr || collective->participants.count(node) == 0) return;
  collective->parts[node].push_back({status, std::move(bytes)});
  while (complete(*collective)) {
  }
  if (is_idle(*collective)) collectives_.erase(name);
}

void Collectives::ended(Rank rank) {
  ended_.insert(rank);
  look_at_all();
}

void Collectives::over(std::size_t node) {
  if (node >= nodes_.size()) return;
  ended_.insert(nodes_[node].begin(), nodes_[node].end());
  look_at_all();
}

void Collectives::look_at_all() {
  for (auto& [name, collective] : collectives_) {
    while (complete(collective)) {
    }
  }
  std::erase_if(collectives_, [](const auto& each) { return is_idle(each.second); });
}

bool Collectives::is_idle(const Collective& collective) {
  return collective.waiting.empty() && std::all_of(collective.parts.begin(), collective.parts.end(),
                                                   [](const auto& each) { return each.second.empty(); });
}

bool Collectives::is_missing(const Collective& collective, std::size_t node) const {
  auto given = collective.parts.find(node);
  if (given != collective.parts.end() && !given->second.empty()) return false;
  const std::vector<Rank>& ranks = collective.participants.at(node);
  return std::any_of(ranks.begin(), ranks.end(), [this](Rank rank) { return ended_.count(rank) == 0; });
}

// Its first round, if every node has given a part. A round to which no node gives a part, as all have ended, does
// not count.
bool Collectives::complete(Collective& collective) {
  bool any = false;
  for (const auto& [node, ranks] : collective.participants) {
    if (is_missing(collective, node)) return false;
  }
  int status = 0;
  std::string all;
  bool mine = false;
  for (auto& [node, parts] : collective.parts) {
    if (parts.empty()) continue;
    any = true;
    mine = mine || node == here_;
    if (status == 0) status = parts.front().status;
    all += parts.front().bytes;
    parts.pop_front();
  }
  if (!mine || collective.waiting.empty()) return any;
  Done done = std::move(collective.waiting.front());
  collective.waiting.pop_front();
  done(status, all);
  return true;
}

}  // namespace nacre::pmix
