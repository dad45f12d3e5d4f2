// SPDX-License-Identifier: Apache-2.0
//
// On which shells the processes of a spawn run. First those get them that have cores free, the one of the process
// that requests it before the others, in their order; what is left then is spread evenly. Each program of the spawn
// is placed behind the one before it, on its hosts if it names some.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "pmi/spawn.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

struct SpawnRoom {
  std::uint32_t shell = 0;
  std::string host;
  std::optional<std::uint32_t> free;  // so many processes have a core of their own; none: it takes no process
};

// By rank of the new group: its shell. `rooms`: of all shells, by ascending number, that of `asker` among them.
// EINVAL: the request is wrong; ECANCELED: no shell takes a process.
Result<std::vector<std::uint32_t>> place_spawn(const pmi::Spawn& spawn, std::vector<SpawnRoom> rooms,
                                               std::uint32_t asker);

// MPI_UNIVERSE_SIZE of such processes: how many there are, and as many as have cores free beside them then. None:
// no core is left, so that a program finds no number and spawn refuses nothing. `rooms`: before they were placed.
[[nodiscard]] std::optional<std::uint32_t> universe_of_spawn(const std::vector<std::uint32_t>& places,
                                                             const std::vector<SpawnRoom>& rooms);

// The ranks that are on this shell; `places`: of a spawn, as place_spawn() returns them.
[[nodiscard]] value::Idset ranks_placed_on(const std::vector<std::uint32_t>& places, std::uint32_t shell);

}  // namespace nacre::plugins
