// SPDX-License-Identifier: Apache-2.0
#include "job_kept_ends.hpp"

#include <algorithm>
#include <utility>

#include "job_tasks.hpp"

namespace nacre::sim {

std::optional<Id> JobKeptEnds::first() const {
  return kept_.empty() ? std::nullopt : std::optional(kept_.begin()->first);
}

JobKeptEnd* JobKeptEnds::find(Id rank) {
  auto found = kept_.find(rank);
  return found == kept_.end() ? nullptr : &found->second;
}

bool JobKeptEnds::is_due() const {
  return std::any_of(kept_.begin(), kept_.end(), [](const auto& each) { return each.second.state == State::due; });
}

Idset JobKeptEnds::asked_alone() const {
  Idset out;
  for (const auto& [rank, each] : kept_) {
    if (each.state == State::asked && !each.whole) out.insert(rank);
  }
  return out;
}

JobKeptEnd& JobKeptEnds::keep(const JobKeptEnd& end) { return kept_.emplace(end.task->rank, end).first->second; }

std::vector<JobKeptEnd*> JobKeptEnds::start_due() {
  std::vector<JobKeptEnd*> out;
  for (auto& [rank, each] : kept_) {
    if (each.state != State::due) continue;
    each.state = State::starting;
    out.push_back(&each);
  }
  return out;
}

void JobKeptEnds::start_all() {
  for (auto& [rank, each] : kept_) each.state = State::starting;
}

void JobKeptEnds::erase_if(const std::function<bool(Id rank)>& which) {
  std::erase_if(kept_, [&](const auto& each) { return which(each.first); });
}

void JobKeptEnds::erase_starting() {
  std::erase_if(kept_, [](const auto& each) { return each.second.state == State::starting; });
}

void JobKeptEnds::drop(Id rank) {
  auto node = kept_.extract(rank);
  JobKeptEnd& kept = node.mapped();
  if (kept.state != State::asked) return tasks_.record(rank, kept.record);
  dropped_.emplace(rank, kept.record);
  tasks_.end_for_good(*kept.task);
}

void JobKeptEnds::drop_all() {
  while (!kept_.empty()) drop(kept_.begin()->first);
}

void JobKeptEnds::refuse(Id rank) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end() || kept->second.state != State::asked) return;
  JobTask* task = kept->second.task;
  kept_.erase(kept);
  tasks_.end_for_good(*task);
}

void JobKeptEnds::record_dropped(Id rank) {
  if (auto before = dropped_.extract(rank)) tasks_.record(rank, before.mapped());
}

void JobKeptEnds::record_all_dropped() {
  for (auto& [rank, record] : std::exchange(dropped_, {})) tasks_.record(rank, record);
}

}  // namespace nacre::sim
