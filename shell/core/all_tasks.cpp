// SPDX-License-Identifier: Apache-2.0
#include "core/all_tasks.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace nacre::core {

void AllTasks::reported(const group::Ended& ended) {
  for (const auto& [attempt, ranks] : elastic::Starts(host_.job().tasks()).ranks(ended.tasks))
    this->ended(expected_.current(ranks, attempt), ended.record);
}

void AllTasks::ended(const value::Idset& ranks, const exits::Record& record) {
  value::Idset fresh = outcomes_.add(ranks, record);
  if (fresh.empty()) return;
  if (record.status() && on_first_ended_) std::exchange(on_first_ended_, nullptr)({*fresh.first(), record});
  notices_.ended(fresh, record);
}

const exits::Outcomes& AllTasks::final_outcomes() {
  outcomes_.add(host_.job().all_ranks(), exits::Record::victim({}));
  return outcomes_;
}

value::Idset AllTasks::unfinished_on(group::Rank shell) const {
  return host_.job().taskmap.ranks_on(shell) - outcomes_.ranks();
}

std::size_t AllTasks::left() const {
  const std::uint64_t all = host_.job().tasks();
  return all - std::min<std::uint64_t>(all, outcomes_.ranks().size());
}

}  // namespace nacre::core
