// SPDX-License-Identifier: Apache-2.0
//
// A process group, what its server knows of each client, and what the server asks of its owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "pmi/kvs.hpp"
#include "pmi/spawn.hpp"

namespace nacre::pmi {

// As get_maxes announces them, the final NUL of C included. MPICH 4.0 reads lines of 1,024 bytes: larger ones make it
// assert.
inline constexpr std::size_t kMaxName = 64;
inline constexpr std::size_t kMaxKey = 64;
inline constexpr std::size_t kMaxValue = 1024;

struct Group {
  std::string kvsname;               // one word; PMI-2's job id
  std::uint32_t size = 1;            // of the whole job
  std::vector<std::uint32_t> ranks;  // of this node's clients
  std::optional<std::uint32_t> universe_size;
  std::vector<std::uint32_t> appnums;  // by client: which of a spawn's programs it runs; empty: all the first
  std::optional<std::string> spawner;  // the kvsname of the group that has spawned this one
  bool pmi1 = true;                    // which of the two are offered
  bool pmi2 = true;
  Quota* quota = nullptr;  // outlives the server; nullptr: no limit

  [[nodiscard]] std::uint32_t appnum(std::uint32_t client) const { return appnums.empty() ? 0 : appnums[client]; }
};

// How far a client has come.
enum class Stage {
  silent,     // has said nothing
  greeted,    // has asked for a version
  joined,     // has called init
  finalized,  // has called finalize
  left,       // has gone without that
};

struct Client {
  Stage stage = Stage::silent;
  bool has_joined = false;  // ever
  int version = 0;          // 1 or 2, once greeted
  std::string asked;        // the version that it has asked for, "1.1"
  bool waits = false;       // in a barrier or fence
  std::uint64_t barriers = 0;
  std::string last_command;
};

// What the server asks of its owner.
struct Fence {        // all clients are in the barrier; answer with fenced()
  EntryRefs entries;  // that they have put since the last one, of the server's
};
struct Abort {
  std::uint32_t client = 0;
  int exit_code = 1;
  std::string message;  // "" if the client gave none
};
struct Dropped {  // to be closed, once what it is sent is written
  std::uint32_t client = 0;
  std::string why;
};
struct SpawnRequest {  // answer with spawned()
  std::uint32_t client = 0;
  Spawn spawn;
};
struct Full {                           // something was refused for the first time, as it goes beyond the quota
  std::optional<std::uint32_t> client;  // none: the keys of other nodes, and so the barrier
  std::uint64_t bytes = 0;              // that it would have had
  std::uint64_t limit = 0;              // of the quota
};
using Event = std::variant<Fence, Abort, Dropped, SpawnRequest, Full>;

}  // namespace nacre::pmi
