// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawn_table.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/on_lost.hpp"
#include "plugins/pmi/spawn_places.hpp"

namespace nacre::plugins {
namespace {

// Announcements about a spawn: the start of the tasks, the spawn's number in it, and a rank of it that is lost, or
// a shell whose processes of it have all ended.
constexpr std::string_view kSpawnLost = "pmi.spawn-lost";
constexpr std::string_view kSpawnEnded = "pmi.spawn-ended";

}  // namespace

SpawnTable::Place SpawnTable::add(const SpawnRound& round) {
  auto place = entries_.emplace(entries_.end());
  place->start = round.order.start;
  place->number = round.number;
  place->places = round.places;
  return place;
}

SpawnTable::Entry* SpawnTable::find(std::uint64_t start, std::uint64_t number) {
  auto found = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& each) { return each.start == start && each.number == number; });
  return found == entries_.end() ? nullptr : &*found;
}

SpawnTable::Place SpawnTable::drop(Place place) {
  if (place->here && place->here->group() != nullptr) before_drop_(*place->here->group());
  return entries_.erase(place);
}

// A spawn stays as long as others may wait for this shell in its barriers, or the loss of a shell may matter.
void SpawnTable::drop_those_over() {
  auto is_over = [this](const Entry& entry) {
    if (entry.here) return entry.here->over();
    if (entry.bystands) return entry.bystands->over();
    return std::all_of(entry.places.begin(), entry.places.end(),
                       [&](std::uint32_t shell) { return entry.ended.contains(shell) || !is_missed(shell); });
  };
  for (auto place = entries_.begin(); place != entries_.end();) place = is_over(*place) ? drop(place) : ++place;
}

// ---- what becomes of them ----------------------------------------------------------------------

void SpawnTable::settled(Entry& entry, bool all_started) {
  if (!all_started) {
    if (entry.here) entry.here->cancel();
    return;
  }
  has_settled_ = true;
  for (std::uint32_t shell : std::set<std::uint32_t>(entry.places.begin(), entry.places.end())) {
    if (gone_.contains(shell)) lose(entry, shell, lost_.contains(shell));
  }
}

void SpawnTable::ended_here(Place place, bool several) {
  const std::uint32_t own = host_.job().shell_rank;
  if (several && is_missed(own)) announce(kSpawnEnded, *place, own);
  place->ended.insert(own);
  if (place->here->over()) drop(place);
}

void SpawnTable::announce_lost(const Entry& entry, std::uint32_t rank) { announce(kSpawnLost, entry, rank); }

void SpawnTable::announce(std::string_view topic, const Entry& entry, std::uint32_t what) {
  Result<void> sent = host_.announce(topic, fmt::format("{} {} {}", entry.start, entry.number, what));
  if (!sent) log(host_, plugin_, Level::warn, "{}: {}", topic, sent.error().message);
}

void SpawnTable::announced(std::string_view topic, std::string_view bytes) {
  if (topic != kSpawnLost && topic != kSpawnEnded) return;
  auto parts = split(bytes, ' ');
  if (parts.size() != 3) return;
  auto start = parse_u64(parts[0]), number = parse_u64(parts[1]), what = parse_u64(parts[2]);
  if (!start || !number || !what) return;
  Entry* entry = find(*start, *number);
  if (entry == nullptr) return;
  if (topic == kSpawnEnded) {
    entry->ended.insert(static_cast<std::uint32_t>(*what));
  } else if (entry->here && *what < entry->places.size()) {
    entry->here->lost_elsewhere(static_cast<std::uint32_t>(*what));
  }
}

void SpawnTable::signal(int signum) {
  for (const Entry& entry : entries_) {
    if (entry.here) entry.here->signal(signum);
  }
}

void SpawnTable::shell_leaves() {
  for (Entry& entry : entries_) {
    if (entry.here) entry.here->shell_leaves();
  }
}

void SpawnTable::shell_gone(std::uint32_t shell, bool is_lost) {
  gone_.insert(shell);
  if (is_lost) lost_.insert(shell);
  for (Entry& entry : entries_) {
    if (entry.is_settled) lose(entry, shell, is_lost);
  }
}

// The processes of a shell that is lost while the job goes on are lost as tasks are, one by one. The leader ends
// the job where that ends it.
void SpawnTable::lose(Entry& entry, std::uint32_t shell, bool is_lost) {
  if (entry.ended.contains(shell)) return;
  const value::Idset ranks = ranks_placed_on(entry.places, shell);
  if (ranks.empty()) return;
  entry.ended.insert(shell);
  if (entry.here) {
    for (std::uint32_t rank : ranks.ids()) entry.here->lost_with_shell(rank);
  }
  if (!is_lost || !is_missed(shell) || host_.job().shell_rank != 0) return;
  host_.raise(
      {"exec", 0,
       fmt::format("rank {} of spawn {}{} is lost with its shell; the job ends (-o fault-tolerance lets the "
                   "others go on)",
                   ranks.short_str(), entry.number, host_.job().resources.nodes[shell].on()),
       value::WaitStatus::exited(1)});
}

// Whether the job would go on without the shell if it had no spawned processes, but not without these.
bool SpawnTable::is_missed(std::uint32_t shell) const {
  auto on_lost = job::OnLost::read(host_.options());
  if (options_.fault_tolerant || !on_lost || on_lost->goes_on) return false;
  return on_lost->replaces || host_.job().is_spare(shell);
}

// ---- what there is -----------------------------------------------------------------------------

std::uint32_t SpawnTable::running() const {
  std::uint32_t out = 0;
  for (const Entry& entry : entries_) out += entry.here ? entry.here->running() : 0;
  return out;
}

void SpawnTable::each_process(const TakeProcess& take) const {
  for (const Entry& entry : entries_) {
    if (!entry.here) continue;
    for (const SpawnedProcess& each : entry.here->that_run()) take(entry.number, entry.here->output_task(), each);
  }
}

bool SpawnTable::has_begun() const {
  return has_settled_ ||
         std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return !entry.is_settled; });
}

bool SpawnTable::is_connected() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.here && entry.here->is_connected(); });
}

}  // namespace nacre::plugins
