// SPDX-License-Identifier: Apache-2.0
#include "process_map.hpp"

namespace nacre::pmix {

void ProcessMap::add(const std::string& nspace, Rank offset, const RanksByNode& nodes) {
  const std::string* name = &offsets_.insert_or_assign(nspace, offset).first->first;
  for (const auto& [node, ranks] : nodes) {
    for (Rank rank : ranks) places_[offset + rank] = {name, rank, node};
  }
}

std::optional<Rank> ProcessMap::number_of(const std::string& nspace, Rank rank) const {
  auto offset = offsets_.find(nspace);
  if (offset == offsets_.end()) return std::nullopt;
  const Place* place = find(offset->second + rank);
  if (place == nullptr || place->rank != rank || *place->nspace != nspace) return std::nullopt;
  return offset->second + rank;
}

std::vector<Rank> ProcessMap::numbers_of(const std::string& nspace) const {
  std::vector<Rank> out;
  auto offset = offsets_.find(nspace);
  if (offset == offsets_.end()) return out;
  for (auto each = places_.lower_bound(offset->second); each != places_.end(); ++each) {
    if (*each->second.nspace != nspace) break;
    out.push_back(each->first);
  }
  return out;
}

const ProcessMap::Place* ProcessMap::find(Rank number) const {
  auto place = places_.find(number);
  return place != places_.end() ? &place->second : nullptr;
}

std::vector<Rank> ProcessMap::numbers_on(std::uint32_t node) const {
  std::vector<Rank> out;
  for (const auto& [number, place] : places_) {
    if (place.node == node) out.push_back(number);
  }
  return out;
}

std::set<std::uint32_t> ProcessMap::nodes_of(const std::string& nspace) const {
  std::set<std::uint32_t> out;
  for (Rank number : numbers_of(nspace)) out.insert(places_.at(number).node);
  return out;
}

}  // namespace nacre::pmix
