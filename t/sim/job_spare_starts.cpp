// SPDX-License-Identifier: Apache-2.0
#include "job_spare_starts.hpp"

#include <string>
#include <utility>

#include "job_shell.hpp"
#include "job_whole_restart.hpp"

namespace nacre::sim {

void JobSpareStarts::wait_is_over(Id rank) {
  using State = JobKeptEnd::State;
  JobKeptEnd& kept = *kept_.find(rank);
  kept.state = replica_.asks_for_spares() && !kept.ordered ? State::moving : State::due;
  if (kept.state != State::moving) return;
  if (unplaced_.empty()) shell_.process().later(Time{}, [this] { ask(); });
  unplaced_.push_back(rank);
}

void JobSpareStarts::ask() {
  elastic::SpareRequest asked{shell_.process().id(), false, {}};
  for (Id rank : std::exchange(unplaced_, {})) {
    const JobKeptEnd* kept = kept_.find(rank);
    if (kept != nullptr && kept->state == JobKeptEnd::State::moving) asked.starts.emplace_back(rank, kept->attempt);
  }
  if (!asked.starts.empty()) shell_.group().announce("shell.restart-to-spare", asked.text());
}

void JobSpareStarts::placed(const elastic::SpareRequest& asked, const elastic::SparePlaces& places) {
  if (asked.together) return placed_together(places);
  for (const auto& [rank, attempt] : asked.starts) placed(rank, places);
}

void JobSpareStarts::placed(Id rank, const elastic::SparePlaces& places) {
  JobKeptEnd* kept = kept_.find(rank);
  if (kept == nullptr || kept->state != JobKeptEnd::State::moving) return;
  const bool stays = places.stay.contains(rank);
  if (!stays && replica_.is_here(rank)) return;  // something else has come before it
  const bool is_late = signalled_.contains(rank);
  signalled_.remove(rank);
  if (stays && !is_late) {
    kept->state = JobKeptEnd::State::due;
    return;
  }
  if (stays) return kept_.drop(rank);
  kept_.erase(rank);
  if (is_late) shell_.group().announce("signal", std::to_string(rank));
}

void JobSpareStarts::placed_together(const elastic::SparePlaces& places) {
  if (!whole_.moves()) return;
  const bool is_moved = !places.moves.empty();
  if (!is_moved && places.stay.empty()) return;  // something else has come before it
  Idset late = std::exchange(signalled_, {});
  if (!is_moved) return late.empty() ? whole_.stay() : whole_.drop_node();
  whole_.reset();
  kept_.clear();
  for (Id rank : late.ids()) shell_.group().announce("signal", std::to_string(rank));
}

}  // namespace nacre::sim
