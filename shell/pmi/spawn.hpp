// SPDX-License-Identifier: Apache-2.0
//
// What PMI_Spawn_multiple and PMI2_Job_Spawn ask for: programs that become a process group of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "pmi/kvs.hpp"
#include "pmi/message.hpp"

namespace nacre::pmi {

inline constexpr std::uint32_t kMaxSpawned = 4096;     // processes of one call
inline constexpr std::uint32_t kMaxSpawnItems = 4096;  // arguments, keys or info items of one program

struct SpawnProgram {
  std::uint32_t processes = 1;
  std::vector<std::string> argv;  // the program first
  Entries info;                   // what the user asked for: path, wdir, host, ...
};

struct Spawn {
  std::vector<SpawnProgram> programs;
  Entries preput;  // keys of the new group's space

  [[nodiscard]] std::uint32_t processes() const;
};

// The codes with commas between, as answers have them; "", to be left out, if all are 0 and they are many: clients take
// that for zeros, and MPICH 4.0 reads messages of 1,024 bytes at most.
std::string code_list(const std::vector<int>& codes);

// One block of PMI-1, from "mcmd=spawn" on: adds its program. True if it was the last one ("spawnssofar" is
// "totspawns"). Arguments count from 1, as MPICH sends them, or from 0, as RFC 13 says.
Result<bool> add_spawn_block(const Message& message, Spawn& spawn);

// PMI-2's spawn, all programs in one message: ncmds, preputcount, ppkey0, ppval0, ..., then for each program subcmd,
// maxprocs, argc, argv0, ..., infokeycount, infokey0, infoval0, ...
Result<Spawn> read_spawn(const Message& message);

}  // namespace nacre::pmi
