// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/spawn_places.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "value/hostlist.hpp"

namespace nacre::plugins {
namespace {

using Rooms = std::vector<SpawnRoom*>;  // that of the asking process's shell first

Rooms in_turn(std::vector<SpawnRoom>& rooms, std::uint32_t asker) {
  Rooms out;
  for (SpawnRoom& each : rooms) out.push_back(&each);
  auto first = std::find_if(out.begin(), out.end(), [&](const SpawnRoom* each) { return each->shell >= asker; });
  std::rotate(out.begin(), first, out.end());
  return out;
}

// "host": where to run, separated by commas.
Result<Rooms> on_hosts(const Rooms& all, std::string_view key, std::string_view hosts) {
  Rooms out;
  for (std::string_view host : split(hosts, ',')) {
    host = trim(host);
    if (host == "localhost") host = all.front()->host;
    bool is_known = false;
    for (SpawnRoom* each : all) {
      if (each->host != host) continue;
      is_known = true;
      if (std::find(out.begin(), out.end(), each) == out.end()) out.push_back(each);
    }
    if (is_known) continue;
    value::Hostlist known;
    for (const SpawnRoom* each : all) {
      if (!each->host.empty()) known.append(each->host);
    }
    known.uniq();
    return invalid(
        fmt::format("info key {}: {} is no host of the job, which has {}", key, in_quotes(host), known.str()));
  }
  return out;
}

Result<Rooms> rooms_for(const pmi::SpawnProgram& program, const Rooms& all) {
  Rooms out = all;
  for (std::string_view key : {"host", "hosts"}) {
    if (const std::string* hosts = program.find_info(key)) out = TRY(on_hosts(all, key, *hosts));
  }
  std::erase_if(out, [](const SpawnRoom* each) { return !each->free; });
  if (out.empty()) {
    return Error{ECANCELED, fmt::format("{}: no shell that may run it takes processes any more",
                                        in_quotes(program.argv.front()))};
  }
  return out;
}

void place_program(const Rooms& rooms, std::uint32_t processes, std::vector<std::uint32_t>& out) {
  std::vector<std::uint32_t> counts(rooms.size());
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    counts[i] = std::min(*rooms[i]->free, processes);
    *rooms[i]->free -= counts[i];
    processes -= counts[i];
  }
  auto shells = static_cast<std::uint32_t>(rooms.size());
  for (std::uint32_t i = 0; i < shells; ++i) counts[i] += processes / shells + (i < processes % shells ? 1 : 0);
  for (std::size_t i = 0; i < rooms.size(); ++i) out.insert(out.end(), counts[i], rooms[i]->shell);
}

}  // namespace

Result<std::vector<std::uint32_t>> place_spawn(const pmi::Spawn& spawn, std::vector<SpawnRoom> rooms,
                                               std::uint32_t asker) {
  if (spawn.processes() == 0) return invalid("expected one process or more");
  Rooms all = in_turn(rooms, asker);
  std::vector<std::uint32_t> out;
  for (const pmi::SpawnProgram& program : spawn.programs) {
    place_program(TRY(rooms_for(program, all)), program.processes, out);
  }
  return out;
}

std::optional<std::uint32_t> universe_of_spawn(const std::vector<std::uint32_t>& places,
                                               const std::vector<SpawnRoom>& rooms) {
  std::uint64_t left = 0;
  for (const SpawnRoom& each : rooms) {
    const auto placed = static_cast<std::uint64_t>(std::count(places.begin(), places.end(), each.shell));
    const std::uint64_t free = each.free.value_or(0);
    left += free - std::min(free, placed);
  }
  return left > 0 ? std::optional(static_cast<std::uint32_t>(places.size() + left)) : std::nullopt;
}

value::Idset ranks_placed_on(const std::vector<std::uint32_t>& places, std::uint32_t shell) {
  value::Idset out;
  for (std::uint32_t rank = 0; rank < places.size(); ++rank) {
    if (places[rank] == shell) out.insert(rank);
  }
  return out;
}

}  // namespace nacre::plugins
