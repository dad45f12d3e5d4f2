// SPDX-License-Identifier: Apache-2.0
//
// ShellRestart with where=spare: tasks that start again do so on a spare, if one can take them. Once their wait is
// over their shell asks for one, and in the order of the log all shells ask elastic::Recovery alike which it is. So
// it is for single tasks and for those of a shell (scope=node), which have ended by then. Where all tasks of the
// job start again it is decided with that: they start once all have ended.
//
// A signal to end them that comes while they have asked is sent on to where they start.
#include <utility>

#include <fmt/format.h>

#include "core/shell_restart.hpp"

namespace nacre::core {

namespace {

void report_places(plugin::Host& host, group::Rank shell, const elastic::SparePlaces& places) {
  const auto& nodes = host.job().resources.nodes;
  auto raise = [&](const value::Idset& ranks, const std::string& where) {
    host.raise({"restart", 2,
                fmt::format("rank {}{} {} again {}", ranks.short_str(), nodes[shell].on(),
                            ranks.size() == 1 ? "starts" : "start", where),
                std::nullopt});
  };
  for (const job::Move& each : places.moves)
    raise(each.ranks, fmt::format("on the spare shell {}{}", each.to, nodes[each.to].on()));
  if (!places.stay.empty()) raise(places.stay, "where it was: " + places.why);
}

}  // namespace

bool ShellRestart::may_take(group::Rank shell) const {
  return recovery_ ? recovery_->may_take(shell) : shells_.roster().stays(shell);
}

bool ShellRestart::asks_for_spares() const {
  return option_.where == job::RestartOption::Where::spare && shells_.has_others();
}

void ShellRestart::come(const value::Idset& ranks) {
  if (!recovery_) return;
  for (Rank rank : ranks.ids()) moving_.coming[rank];
}

// ---- of tasks of this shell --------------------------------------------------------------------

void ShellRestart::wait_is_over(Rank rank) {
  KeptEnd& kept = kept_.at(rank);
  kept.state = asks_for_spares() && !kept.ordered ? State::moving : State::due;
  if (kept.state != State::moving) return;
  moving_.unsent.push_back(rank);
  turn_->start(event::Seconds::zero());  // those that are due at once are asked for at once
}

void ShellRestart::ask_for_spares() {
  ask_for_spare_together();
  elastic::SpareRequest asked{job_.shell_rank, false, {}};
  for (Rank rank : std::exchange(moving_.unsent, {})) {
    auto kept = kept_.find(rank);
    if (kept != kept_.end() && kept->second.state == State::moving)
      asked.starts.emplace_back(rank, kept->second.attempt);
  }
  if (asked.starts.empty()) return;
  Result<void> sent = host_.announce(kToSpare, asked.text());
  if (sent) return;
  host_.log().log(Level::error, "", "restart: {}", sent.error().message);
  for (const auto& [rank, attempt] : asked.starts) placed(rank, {{}, value::Idset::range(rank, rank), ""});
}

void ShellRestart::wait_together_is_over() {
  if (!together_->plan().is_node || together_->plan().ordered || !asks_for_spares()) return together_->set_due();
  together_->set_moving();
  turn_->start(event::Seconds::zero());
}

void ShellRestart::ask_for_spare_together() {
  if (!together_ || !together_->begin_asking()) return;
  elastic::SpareRequest asked{job_.shell_rank, true, {}};
  const value::Idset ranks = job_.taskmap.ranks_on(job_.shell_rank);
  for (Rank rank : ranks.ids()) asked.starts.emplace_back(rank, job_.attempt_of(rank));
  Result<void> sent = host_.announce(kToSpare, asked.text());
  if (sent) return;
  host_.log().log(Level::error, "", "restart: {}", sent.error().message);
  placed_together({{}, ranks, ""});
}

// ---- in the order of the log -------------------------------------------------------------------

void ShellRestart::asked_for_spare(std::string_view bytes) {
  auto asked = elastic::SpareRequest::parse(bytes, job_.shells(), job_.tasks());
  if (!asked)
    return host_.log().log(Level::warn, "", "restart: an announcement that this version does not understand");
  elastic::SparePlaces places = recovery_->place(*asked);
  shells_.notices().moved(places.moves, false);
  if (shells_.leads()) report_places(host_, asked->shell, places);
  if (moving_.moved) moving_.moved(places.moves);
  if (asked->shell != job_.shell_rank) return;
  if (asked->together) return placed_together(places);
  for (const auto& [rank, attempt] : asked->starts) placed(rank, places);
  if (job_.taskmap.tasks_on(job_.shell_rank) == 0) tasks_.remove_moved();
}

void ShellRestart::placed(Rank rank, const elastic::SparePlaces& places) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end() || kept->second.state != State::moving) return;
  const bool stays = places.stay.contains(rank);
  if (!stays && job_.taskmap.node_of(rank) == job_.shell_rank) return;  // something else has come before it
  const std::set<int> late = moving_.take_late(rank);
  if (stays && late.empty()) {
    kept->second.state = State::due;
    return;
  }
  if (stays) return drop(rank);
  kept_.erase(kept);
  for (int signum : late) host_.signal_tasks(signum, value::Idset::range(rank, rank));
}

void ShellRestart::placed_together(const elastic::SparePlaces& places) {
  if (!together_ || !together_->is_moving()) return;
  const bool is_moved = !places.moves.empty();
  if (!is_moved && places.stay.empty()) return;  // something else has come before it
  auto late = std::exchange(moving_.late, {});
  if (is_moved) {
    together_.reset();
    kept_.clear();
    tasks_.remove_moved();
    for (const auto& [rank, signals] : late) {
      for (int signum : signals) host_.signal_tasks(signum, value::Idset::range(rank, rank));
    }
  } else if (!late.empty()) {
    drop_node();
  } else {
    together_->set_due();
  }
}

}  // namespace nacre::core
