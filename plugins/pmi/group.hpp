// SPDX-License-Identifier: Apache-2.0
//
// One process group with its clients on this node: the PMI server and the connections to it. The job's tasks are
// one; each spawn makes another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/pump.hpp"
#include "event/loop.hpp"
#include "plugins/pmi/link.hpp"
#include "pmi/key_exchange.hpp"
#include "pmi/server.hpp"

namespace nacre::plugins {

// For people; `who`: the client, if it is one's.
[[nodiscard]] std::string text_of(const pmi::Full& full, std::string_view who);

class PmiGroup {
 public:
  // The key that lists the lost. Who asks for it has often seen a connection end: the answer knows of all clients whose
  // own has ended by then.
  static constexpr std::string_view kDead = "PMI_dead_processes";

  struct Callbacks {
    std::function<void(const pmi::Abort&)> on_abort;
    std::function<void(const pmi::Dropped&)> on_dropped;
    std::function<void(const pmi::SpawnRequest&)> on_spawn;
    std::function<void(const pmi::Full&)> on_full;
    // Its connection has ended before finalize; called before a barrier does without it.
    std::function<void(std::uint32_t client)> on_left;
    // All are in the barrier that still may come; false keeps them there.
    std::function<bool()> on_barrier;
    std::function<void(bool begins)> on_wait;  // the first is in a barrier, or the last has left it
    // What was said, if it is set: for those who want to see all of it.
    std::function<void(std::uint32_t client, bool to_client, std::string_view bytes)> on_bytes;
  };

  // `names` and `exchange` outlive the group.
  PmiGroup(event::Loop& loop, pmi::Group group, pmi::Names& names, pmi::KeyExchange& exchange, Callbacks callbacks);
  PmiGroup(const PmiGroup&) = delete;
  PmiGroup& operator=(const PmiGroup&) = delete;

  // The client's end of its connection; once the client has it, start().
  Result<UniqueFd> open(std::uint32_t client) { return links_[client].open(); }
  Result<void> start(std::uint32_t client);
  void drain(std::uint32_t client) { links_[client].drain(); }  // takes what it has said so far
  void end(std::uint32_t client);                               // its process has ended
  void spawned(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes);
  void close();  // all connections

  [[nodiscard]] pmi::Server& server() { return server_; }
  [[nodiscard]] const pmi::Server& server() const { return server_; }

 private:
  void received(std::uint32_t client, std::string_view bytes);
  void pump();  // carries out what the server asks for
  bool step();  // false: it has asked for nothing
  void carry_out(pmi::Event& event);

  event::Loop& loop_;
  pmi::Server server_;
  pmi::KeyExchange& exchange_;
  Callbacks callbacks_;
  std::vector<PmiLink> links_;
  std::vector<std::uint32_t> pending_;  // kept for its memory
  Pump pump_;
  bool waited_ = false;  // when on_wait was called last
};

}  // namespace nacre::plugins
