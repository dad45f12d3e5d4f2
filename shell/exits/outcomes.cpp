// SPDX-License-Identifier: Apache-2.0
#include "exits/outcomes.hpp"

#include "base/invariant.hpp"

namespace nacre::exits {

value::Idset Outcomes::add(const value::Idset& ranks, const Record& record) {
  value::Idset fresh = ranks - ranks_;
  if (fresh.empty()) return fresh;
  ranks_.insert(fresh);
  auto [it, is_new] = classes_.try_emplace(record.str(), record, fresh);
  if (is_new)
    arrivals_.push_back(it->first);
  else
    it->second.second.insert(fresh);
  INVARIANT(arrivals_.size() == classes_.size());
  return fresh;
}

void Outcomes::forget(const value::Idset& ranks) {
  ranks_ = ranks_ - ranks;
  for (auto& [text, each] : classes_) each.second = each.second - ranks;
  std::erase_if(arrivals_, [this](const std::string& text) { return classes_.at(text).second.empty(); });
  std::erase_if(classes_, [](const auto& each) { return each.second.second.empty(); });
  INVARIANT(arrivals_.size() == classes_.size());
}

std::vector<Outcomes::Class> Outcomes::classes() const {
  std::vector<Class> out;
  out.reserve(classes_.size());
  for (const auto& [text, each] : classes_) out.push_back(each);
  return out;
}

std::vector<Outcomes::Class> Outcomes::in_order() const {
  std::vector<Class> out;
  out.reserve(arrivals_.size());
  for (const std::string& text : arrivals_) out.push_back(classes_.at(text));
  return out;
}

std::optional<Record> Outcomes::of(value::Idset::Id rank) const {
  for (const auto& [text, each] : classes_) {
    if (each.second.contains(rank)) return each.first;
  }
  return {};
}

}  // namespace nacre::exits
