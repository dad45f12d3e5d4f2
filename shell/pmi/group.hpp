// SPDX-License-Identifier: Apache-2.0
//
// A process group, what its server knows of each client, and the events that the server has for its owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "pmi/kvs.hpp"
#include "pmi/spawn.hpp"

namespace nacre::pmi {

// As get_maxes announces them, with the final NUL of C. MPICH 4.0 reads lines of 1,024 bytes, and fails an
// assertion if they are larger.
inline constexpr std::size_t kMaxName = 64;
inline constexpr std::size_t kMaxKey = 64;
inline constexpr std::size_t kMaxValue = 1024;

struct ClientGroup {
  std::string kvsname;               // one word; PMI-2's job id
  std::uint32_t size = 1;            // of the whole job
  std::vector<std::uint32_t> ranks;  // of this node's clients
  std::optional<std::uint32_t> universe_size;
  std::vector<std::uint32_t> appnums;  // by client: which of a spawn's programs it runs; empty: all run the first
  std::optional<std::string> spawner;  // the kvsname of the group that spawned this one
  bool pmi1 = true;                    // which of the two protocols are offered
  bool pmi2 = true;
  Quota* quota = nullptr;  // outlives the server; nullptr: no limit

  [[nodiscard]] std::uint32_t appnum(std::uint32_t client) const { return appnums.empty() ? 0 : appnums[client]; }
};

// The state of a client.
enum class ClientStage {
  silent,     // has sent nothing
  greeted,    // has asked for a version
  joined,     // has called init
  finalized,  // has called finalize
  left,       // has gone without finalize
};

struct ClientProgress {
  ClientStage stage = ClientStage::silent;
  bool has_joined = false;    // ever
  int version = 0;            // 1 or 2, once greeted
  std::string asked;          // the version that it has asked for, "1.1"
  bool waits = false;         // in a barrier or fence
  bool left_waiting = false;  // so it was when it left
  std::uint64_t barriers = 0;
  std::string last_command;
};

// The events for the server's owner.
struct Fence {        // all clients are in the barrier; the owner answers with fenced()
  EntryRefs entries;  // put since the last fence; they belong to the server
};
struct Abort {
  std::uint32_t client = 0;
  int exit_code = 1;
  std::string message;  // "" if the client gave none
};
struct Dropped {  // the owner closes the connection once all output is written
  std::uint32_t client = 0;
  std::string why;
};
struct SpawnRequest {  // the owner answers with spawned()
  std::uint32_t client = 0;
  Spawn spawn;
};
struct Full {                           // for the first time, something was refused because it exceeds the quota
  std::optional<std::uint32_t> client;  // none: the keys of other nodes, and so the barrier
  std::uint64_t bytes = 0;              // that would have been stored
  std::uint64_t limit = 0;              // of the quota
};
using Event = std::variant<Fence, Abort, Dropped, SpawnRequest, Full>;

}  // namespace nacre::pmi
