// SPDX-License-Identifier: Apache-2.0
//
// What PMI_Spawn_multiple and PMI2_Job_Spawn request: programs that become a process group of their own.
#pragma once

#include "pmi/kvs.hpp"
#include "pmi/message.hpp"

namespace nacre::pmi {

inline constexpr std::uint32_t kMaxSpawned = 4096;     // processes of one call
inline constexpr std::uint32_t kMaxSpawnItems = 4096;  // arguments, keys or info items of one program

struct SpawnProgram {
  std::uint32_t processes = 1;
  std::vector<std::string> argv;  // the program comes first
  Entries info;                   // what the user gave: path, wdir, host, ...

  [[nodiscard]] const std::string* find_info(std::string_view key) const;  // nullptr: it was not given
};

struct Spawn {
  std::vector<SpawnProgram> programs;
  Entries preput;  // keys of the new group's space

  [[nodiscard]] std::uint32_t processes() const;
  // The index of the program that the process of this rank of the new group runs; `rank` is one of processes().
  [[nodiscard]] std::uint32_t program_of(std::uint32_t rank) const;
};

// The codes, joined by commas, as answers have them. "" if all are 0 and they are many: then the field is left out,
// which clients read as zeros, as MPICH 4.0 reads messages of at most 1,024 bytes.
std::string code_list(const std::vector<int>& codes);

// Adds the program of one block of PMI-1, which starts with "mcmd=spawn". True if it is the last block
// ("spawnssofar" is "totspawns"). Arguments count from 1, as MPICH sends them, or from 0, as RFC 13 defines. The
// preput is in each block, as MPICH 4.0 sends it, or in the first one alone, as 4.1 and later do.
Result<bool> add_spawn_block(const PmiMessage& message, Spawn& spawn);

// PMI-2's spawn, all programs in one message: ncmds, preputcount, ppkey0, ppval0, ..., then for each program
// subcmd, maxprocs, argc, argv0, ..., infokeycount, infokey0, infoval0, ...
Result<Spawn> read_spawn(const PmiMessage& message);

}  // namespace nacre::pmi
