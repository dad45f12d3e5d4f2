// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawn_rounds.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plugins/pmi/spawn_places.hpp"

namespace nacre::plugins {
namespace {

constexpr char kNoRoom = '-';   // in place of how many processes a shell has room for
constexpr char kStarted = '+';  // its processes, if it has some
constexpr char kFailed = '!';   // before the error: its number, a blank, and its text

std::string room_text(const std::optional<std::uint32_t>& free) {
  return free ? fmt::format_int(*free).str() : std::string(1, kNoRoom);
}

std::string start_text(const Result<void>& started) {
  if (started) return {kStarted};
  return fmt::format("{}{} {}", kFailed, started.error().code, started.error().message);
}

Error read_failure(std::string_view text, const std::string& where) {
  text.remove_prefix(1);
  const std::size_t blank = std::min(text.find(' '), text.size());
  auto code = parse_u64(text.substr(0, blank));
  if (!code || *code > INT32_MAX) return invalid(fmt::format("{}{}", text, where));
  return Error{static_cast<int>(*code), fmt::format("{}{}", text.substr(std::min(blank + 1, text.size())), where)};
}

}  // namespace

std::string SpawnRound::name() const { return fmt::format("pmi.spawn.{}.{}", order.start, number); }

bool SpawnRound::has(std::uint32_t shell) const {
  return std::find(places.begin(), places.end(), shell) != places.end();
}

void SpawnRounds::begin(const PmiStart& start, bool takes_part) {
  start_ = start.number;
  last_ = start.last;
  takes_part_ = takes_part;
  count_ = 0;
}

Result<void> SpawnRounds::announce(SpawnOrder order) {
  order.start = start_;
  order.shell = host_.job().shell_rank;
  return host_.announce(kTopic, order.encode());
}

void SpawnRounds::announced(std::string_view bytes) {
  if (!takes_part_) return;
  auto order = SpawnOrder::decode(bytes);
  if (!order) return host_.log().log(Level::warn, "pmi", "{}", order.error().message);
  if (order->start != start_ || order->shell > last_) return;
  auto open = std::make_unique<Open>();
  open->round = {*std::move(order), ++count_, last_, {}};
  open_.push_back(std::move(open));
  pump_.run([this] { return step(); });
}

bool SpawnRounds::step() {
  if (open_.empty() || open_.front()->waits) return false;
  if (open_.front()->next == Step::over)
    open_.pop_front();
  else
    perform(*open_.front());
  return true;
}

void SpawnRounds::perform(Open& open) {
  switch (open.next) {
    case Step::begin:
      open.next = Step::rooms;
      open.rooms = gather(open, "room", room_text(callbacks_.on_room()));
      break;
    case Step::rooms:
      place(open);
      open.next = open.outcome ? Step::start : Step::settle;
      break;
    case Step::start: {
      open.next = Step::settle;
      open.starts = gather(open, "started", start_text(callbacks_.on_start(open.round)));
      break;
    }
    case Step::settle:
      open.next = Step::over;
      if (open.outcome) open.outcome = outcome_of(open);
      callbacks_.on_settled(open.round, open.outcome);
      break;
    case Step::over: break;
  }
}

plugin::Registration SpawnRounds::gather(Open& open, std::string_view what, std::string mine) {
  open.waits = true;
  return host_.gather_up_to(open.round.last, fmt::format("{}.{}", open.round.name(), what), std::move(mine),
                            [this, &open](Result<plugin::Gathered> gathered) {
                              open.waits = false;
                              open.gathered = std::move(gathered);
                              pump_.run([this] { return step(); });
                            });
}

// Shells that are lost have given nothing, and so have no room.
void SpawnRounds::place(Open& open) {
  open.outcome = {};
  if (!open.gathered) return void(open.outcome = open.gathered.error());
  std::vector<SpawnRoom> rooms;
  for (std::uint32_t shell = 0; shell <= open.round.last; ++shell)
    rooms.push_back({shell, host_.job().resources.nodes[shell].hostname, std::nullopt});
  for (const auto& [text, shells] : *open.gathered) {
    auto free = parse_u64(text);
    for (std::uint32_t shell : shells.ids()) {
      if (free && shell < rooms.size()) rooms[shell].free = static_cast<std::uint32_t>(*free);
    }
  }
  auto places = place_spawn(open.round.order.spawn, rooms, open.round.order.shell);
  if (!places) return void(open.outcome = std::move(places).error());
  open.round.places = *std::move(places);
  open.round.universe = universe_of_spawn(open.round.places, rooms);
}

// All that are to have processes have started them, and who has requested them is still there.
Result<void> SpawnRounds::outcome_of(const Open& open) const {
  if (!open.gathered) return open.gathered.error();
  const SpawnRound& round = open.round;
  auto on = [&](std::uint32_t shell) { return host_.job().resources.nodes[shell].on(); };
  value::Idset started;
  for (const auto& [text, shells] : *open.gathered) {
    if (text.empty() || text.front() != kFailed) {
      started.insert(shells);
      continue;
    }
    bool is_askers = shells.contains(round.order.shell);
    return read_failure(text, is_askers ? "" : on(*shells.first()));
  }
  for (std::uint32_t shell = 0; shell <= round.last; ++shell) {
    if (!started.contains(shell) && (shell == round.order.shell || round.has(shell)))
      return Error{ECANCELED, fmt::format("shell {}{} is lost", shell, on(shell))};
  }
  return {};
}

}  // namespace nacre::plugins
