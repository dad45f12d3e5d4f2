// SPDX-License-Identifier: Apache-2.0
//
// The server of one process group on one node, sans-I/O: the bytes of clients go in; bytes to clients, and events,
// come out. Clients are numbered from 0, as the tasks of this node; each uses PMI-1.1 or PMI-2, as its first
// message demands.
//
// A client's fault harms no other. If the protocol can refuse a request, the answer refuses it; otherwise (a line
// without end, a second barrier before the first is over) the client is dropped, and the barriers of the others go
// on without it. Barriers wait for the clients that may still come: not for one that has finalized, has left, or
// was dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "pmi/framer.hpp"
#include "pmi/group.hpp"
#include "pmi/group_keys.hpp"
#include "pmi/kvs.hpp"
#include "pmi/message.hpp"
#include "pmi/spawn.hpp"

namespace nacre::pmi {

class Server {
 public:
  // `names` is shared by all groups of a job, and outlives the server.
  Server(ClientGroup group, Names& names);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void receive(std::uint32_t client, std::string_view bytes);
  void closed(std::uint32_t client);    // its stream has ended
  void ended(std::uint32_t client);     // its process has gone
  void reopened(std::uint32_t client);  // it has gone before init, and another comes in its place
  // With an error, or with more keys than the quota allows, the barrier fails and no key is stored.
  void fenced(Result<Entries> others);
  // The kvsname of the new group, and an error code for each requested process, 0 if it runs.
  void spawned(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes);

  // Sets a key that clients find in the group's space, and that is an attribute of the job.
  void set_attribute(std::string_view key, std::string_view value) { keys_.set_attribute(key, value); }

  [[nodiscard]] const ClientGroup& group() const { return group_; }
  [[nodiscard]] const std::vector<ClientProgress>& clients() const { return clients_; }
  [[nodiscard]] bool barrier_begun() const { return waiting_ > 0; }
  [[nodiscard]] bool in_use() const { return joined_ > 0; }  // a client has called init

  // Output: the clients that have some, and the bytes for each, which stay until they are taken.
  void take_pending(std::vector<std::uint32_t>& out);  // replaces what is in `out`
  [[nodiscard]] std::string& output(std::uint32_t client) { return connections_[client].output; }
  [[nodiscard]] std::vector<Event> take_events();

 private:
  struct Wanted {  // PMI-2: a client waits for this attribute of the node
    std::string key;
    std::string thread;
  };
  struct Connection {
    Framer framer;
    std::string output;
    bool pending = false;      // in pending_
    bool over = false;         // nothing more is read from it or sent to it
    bool aborts = false;       // PMI-1: has said so
    bool spawns = false;       // waits for spawned()
    Spawn spawn;               // PMI-1: the blocks so far
    std::string fence_thread;  // PMI-2: the thread of the client that waits, if it has several
    std::string spawn_thread;
    std::vector<Wanted> wanted;
  };

  // The two protocols. After an error of take() the connection ends; an error of answer() is sent as the answer.
  Result<void> take(std::uint32_t client, const Frame& frame);
  Result<void> greet(std::uint32_t client, const PmiMessage& message);
  Result<void> take_v1(std::uint32_t client, const PmiMessage& message);
  Result<void> answer_by_index(std::uint32_t client, const PmiMessage& message);
  Result<void> answer_v1(std::uint32_t client, const PmiMessage& message);
  Result<void> answer_v1_process(std::uint32_t client, const PmiMessage& message);
  void spawned_v1(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes);
  Result<void> take_v2(std::uint32_t client, const PmiMessage& message);
  Result<void> begin_v2(std::uint32_t client, const PmiMessage& message);
  Result<void> answer_v2(std::uint32_t client, const PmiMessage& message, BodyWriter& answer);
  Result<void> answer_v2_session(std::uint32_t client, const PmiMessage& message, BodyWriter& answer);
  bool waits_for_attribute(std::uint32_t client, const PmiMessage& message);
  void answer_waiting(std::string_view key);

  void join(std::uint32_t client);
  Result<void> finalize(std::uint32_t client);
  void abort(std::uint32_t client, const PmiMessage& message);
  Result<void> begin_spawn(std::uint32_t client, Spawn spawn);
  void leave(std::uint32_t client);
  void drop(std::uint32_t client, std::string why);
  Result<void> enter_barrier(std::uint32_t client);
  void check_barrier();
  void end_barrier(std::uint32_t client, const Result<void>& others);

  std::string& reply(std::uint32_t client);  // its output, to append to
  BodyWriter reply(std::uint32_t client, std::string_view command, std::string_view thread);

  ClientGroup group_;
  std::vector<Event> events_;
  GroupKeys keys_;
  std::vector<ClientProgress> clients_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> pending_;
  std::uint32_t expected_ = 0;  // clients that barriers wait for
  std::uint32_t waiting_ = 0;   // in the barrier
  std::uint32_t joined_ = 0;    // clients that have ever called init
  bool fencing_ = false;        // the barrier is full, and fenced() has not been called
};

}  // namespace nacre::pmi
