// SPDX-License-Identifier: Apache-2.0
//
// With where=spare: tasks whose wait is over ask for a spare, as core/spare_restart.cpp.
#include <csignal>

#include "job_elastic.hpp"
#include "job_leader.hpp"

namespace nacre::sim {

void JobElastic::wait_is_over(Rank rank) {
  Kept& kept = kept_.at(rank);
  kept.state = asks_for_spares() && !kept.ordered ? State::moving : State::due;
  if (kept.state != State::moving) return;
  if (unplaced_.empty()) shell_.process().later(Time{}, [this] { ask_for_spares(); });
  unplaced_.push_back(rank);
}

void JobElastic::ask_for_spares() {
  elastic::SpareRequest asked{shell_.process().id(), false, {}};
  for (Rank rank : std::exchange(unplaced_, {})) {
    auto kept = kept_.find(rank);
    if (kept != kept_.end() && kept->second.state == State::moving)
      asked.starts.emplace_back(rank, kept->second.attempt);
  }
  if (!asked.starts.empty()) announce("shell.restart-to-spare", asked.text());
}

void JobElastic::wait_together_is_over() {
  together_->moves = together_->is_node && !together_->ordered && asks_for_spares();
  together_->is_due = !together_->moves;
  if (!together_->moves) return;
  elastic::SpareRequest asked{shell_.process().id(), true, {}};
  for (Rank rank : job_.taskmap.ranks_on(shell_.process().id()).ids())
    asked.starts.emplace_back(rank, job_.attempt_of(rank));
  announce("shell.restart-to-spare", asked.text());
}

void JobElastic::asked_for_spare(const std::string& bytes) {
  auto asked = elastic::SpareRequest::parse(bytes, job_.shells(), job_.tasks());
  require(asked.has_value(), asked ? "" : "who asks for a spare cannot be read: " + asked.error().message);
  elastic::SparePlaces places = recovery_.place(*asked);
  take(places.moves);
  for (const job::Move& each : places.moves) {
    if (!leader_) continue;
    for (Rank rank : each.ranks.ids()) shell_.process().witness().moved(rank, each.to);
  }
  if (asked->shell != shell_.process().id()) return;
  if (asked->together) return placed_together(places);
  for (const auto& [rank, attempt] : asked->starts) placed(rank, places);
}

void JobElastic::take(const std::vector<job::Move>& moves) {
  for (const job::Move& each : moves) {
    if (each.to != shell_.process().id()) continue;
    due_.push_back(each);
    coming_.insert(each.ranks);
  }
}

void JobElastic::placed(Rank rank, const elastic::SparePlaces& places) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end() || kept->second.state != State::moving) return;
  const bool stays = places.stay.contains(rank);
  if (!stays && !is_elsewhere(rank)) return;  // something else has come before it
  const bool is_late = late_.contains(rank);
  late_.remove(rank);
  if (stays && !is_late) {
    kept->second.state = State::due;
    return;
  }
  if (stays) return drop(rank);
  kept_.erase(kept);
  if (is_late) announce("signal", std::to_string(rank));
}

void JobElastic::placed_together(const elastic::SparePlaces& places) {
  if (!together_ || !together_->moves) return;
  const bool is_moved = !places.moves.empty();
  if (!is_moved && places.stay.empty()) return;  // something else has come before it
  together_->moves = false;
  Idset late = std::exchange(late_, {});
  if (!is_moved) return late.empty() ? static_cast<void>(together_->is_due = true) : drop_node();
  together_.reset();
  kept_.clear();
  for (Rank rank : late.ids()) announce("signal", std::to_string(rank));
}

// It has been sent on to where the task is.
void JobElastic::signalled_late(Rank rank) {
  if (coming_.contains(rank)) return late_coming_.insert(rank);
  for (Task& each : shell_.tasks().list()) {
    if (each.rank != rank || !each.running || is_elsewhere(rank)) continue;
    each.signalled = true;
    shell_.tasks().kill(each, SIGTERM);
  }
}

}  // namespace nacre::sim
