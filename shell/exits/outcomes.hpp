// SPDX-License-Identifier: Apache-2.0
//
// How the tasks of a job have ended so far. Each rank has at most one record, the first that came; so the sets of
// ranks are disjoint. If each record comes once the result does not depend on their order, except for in_order().
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exits/record.hpp"
#include "value/idset.hpp"

namespace nacre::exits {

class Outcomes {
 public:
  // Ranks that all ended in the same way.
  using Class = std::pair<Record, value::Idset>;

  // Adds a record; returns those of `ranks` that had none before.
  value::Idset add(const value::Idset& ranks, const Record& record);
  // These have no record any more.
  void forget(const value::Idset& ranks);

  [[nodiscard]] const value::Idset& ranks() const { return ranks_; }  // that have a record
  [[nodiscard]] std::vector<Class> classes() const;                   // in the order of their texts
  // The same, in the order in which the first rank of each class came.
  [[nodiscard]] std::vector<Class> in_order() const;
  // The record of one rank; none: it has none yet.
  [[nodiscard]] std::optional<Record> of(value::Idset::Id rank) const;

 private:
  std::map<std::string, Class> classes_;  // by the record's text
  std::vector<std::string> arrivals_;     // keys of classes_
  value::Idset ranks_;
};

}  // namespace nacre::exits
