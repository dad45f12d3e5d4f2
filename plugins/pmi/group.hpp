// SPDX-License-Identifier: Apache-2.0
//
// One process group with its clients on this node: the PMI server and the connections to it. The job's tasks are
// one; each spawn makes another.
#pragma once

#include "base/pump.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/pmi/options.hpp"
#include "plugins/pmi/port.hpp"
#include "pmi/key_exchange.hpp"
#include "pmi/server.hpp"

namespace nacre::plugins {

// The connection to one PMI client: a socket pair, of which the client has one end, or one that it makes to a port.
// Bytes that the client does not read are kept, and until they are sent nothing more is read from it, so that a
// client uses limited memory of the shell.
class PmiLink : Noncopyable {
 public:
  using Received = std::function<void(std::string_view bytes)>;  // "": the end

  PmiLink() = default;
  ~PmiLink() { close(); }

  // The client's end, for the caller to pass on and close.
  Result<UniqueFd> open();
  // Tells a process, by its command, how to connect: by PMI_FD, a descriptor that the caller keeps until the
  // process has it; or with a port, which outlives the link, by PMI_PORT and PMI_ID.
  Result<UniqueFd> offer(task::Command& command, PmiPort* port, std::uint32_t rank, std::uint32_t size);
  Result<void> watch(event::Loop& loop, Received received);
  void drain();                   // passes on what has come, without waiting
  void drain_if_ended();          // if the client has closed its end: as drain(), up to the end
  void send(std::string& bytes);  // takes all of it
  void close_when_sent();
  void close();

 private:
  void admit(UniqueFd connection, bool is_greeted, std::string_view said);
  Result<void> watch_ours();
  void ready(int events);
  bool read_some();                    // returns whether there may be more
  void send_some(std::string& bytes);  // removes what was sent; everything if there is no reader any more
  void flush();

  UniqueFd ours_;
  std::optional<event::Poll> poll_;
  event::Loop* loop_ = nullptr;  // once it is watched
  Received received_;
  PmiPort* port_ = nullptr;  // until the process has connected to it
  std::int32_t id_ = 0;      // its PMI_ID
  bool is_greeted_ = false;  // the next line to be sent has been sent
  std::string unsent_;
  bool closing_ = false;
};

// For messages; `name`: the client, if a client is meant.
[[nodiscard]] std::string text_of(const pmi::Full& full, std::string_view name);

class PmiGroup : Noncopyable {
 public:
  // The key that lists the lost. A client that reads it has often just seen a connection end, so the answer
  // includes every client whose own connection has ended by now.
  static constexpr std::string_view kDead = "PMI_dead_processes";

  struct Callbacks {
    std::function<void(const pmi::Abort&)> on_abort;
    std::function<void(const pmi::Dropped&)> on_dropped;
    std::function<void(const pmi::SpawnRequest&)> on_spawn;
    std::function<void(const pmi::Full&)> on_full;
    // A client's connection has ended before finalize. Called before a barrier goes on without that client.
    std::function<void(std::uint32_t client)> on_left;
    // All clients that may still enter are in the barrier; false keeps them there.
    std::function<bool()> on_barrier;
    // The same for a barrier of some clients, by PMI 1.2; `clients`: those of them that are on this node.
    std::function<bool(const std::vector<std::uint32_t>& clients)> on_group_barrier;
    // The first client has entered a barrier, or the last one has left it
    std::function<void(bool begins)> on_wait;
    // If it is set: a client has come to another stage.
    std::function<void(std::uint32_t client, pmi::ClientStage stage)> on_stage;
    // If it is set: all bytes in both directions, for a log.
    std::function<void(std::uint32_t client, bool to_client, std::string_view bytes)> on_bytes;
  };

  // `names`, `exchange` and `port` outlive the group. `port`: where its clients connect; null: they get a
  // descriptor.
  PmiGroup(event::Loop& loop, pmi::ClientGroup group, pmi::Names& names, pmi::KeyExchange& exchange,
           Callbacks callbacks, PmiPort* port = nullptr);

  // The client's end of its connection. Call start() once the client has it.
  Result<UniqueFd> open(std::uint32_t client) { return links_[client].open(); }
  // As open(), by a variable of the client's command: see PmiLink::offer().
  Result<UniqueFd> offer(std::uint32_t client, task::Command& command);
  Result<void> start(std::uint32_t client);
  void drain(std::uint32_t client) { links_[client].drain(); }  // reads what it has sent so far
  void end(std::uint32_t client);                               // its process has ended
  void reopen(std::uint32_t client);  // its process has ended before init, and open() is called for another one in
                                      // its place
  void spawned(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes);
  void close();  // all connections

  [[nodiscard]] pmi::Server& server() { return server_; }
  [[nodiscard]] const pmi::Server& server() const { return server_; }

 private:
  void received(std::uint32_t client, std::string_view bytes);
  void pump();  // performs what the server requests
  bool step();  // false: it has requested nothing
  void carry_out(pmi::Event& event);

  event::Loop& loop_;
  pmi::Server server_;
  pmi::KeyExchange& exchange_;
  Callbacks callbacks_;
  PmiPort* port_;
  std::vector<PmiLink> links_;
  std::vector<std::uint32_t> pending_;  // a member, to keep its memory
  Pump pump_;
  bool waited_ = false;  // at the last call of on_wait
};

// Tasks of this shell that have come from another one. To the others such a task is not the process that it was:
// until all tasks start again it is no process of the group, and must not use its connection. If it does, it is
// killed if that makes all tasks start again; otherwise the job ends.
class PmiMovedTasks {
 public:
  // All have to outlive it.
  PmiMovedTasks(plugin::Host& host, const plugin::Plugin& plugin, const PmiOptions& options)
      : host_(host), plugin_(plugin), options_(options) {}

  // See PmiLink::offer(). What the task had before is dropped.
  Result<UniqueFd> offer(task::Task& task, PmiPort* port);
  Result<void> watch(const task::Task& task);  // it runs
  void drain(std::uint32_t id) { links_[id].drain(); }

  [[nodiscard]] bool one_has_called() const { return has_called_; }
  void forget();  // all tasks start again

 private:
  void received(std::uint32_t rank, std::string_view bytes);
  void kill(std::uint32_t rank);

  plugin::Host& host_;
  const plugin::Plugin& plugin_;
  const PmiOptions& options_;
  std::map<std::uint32_t, PmiLink> links_;  // by local id
  bool has_called_ = false;
};

}  // namespace nacre::plugins
