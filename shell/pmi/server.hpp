// SPDX-License-Identifier: Apache-2.0
//
// The server of one process group on one node, sans-I/O: the bytes of clients go in; bytes to clients, and events,
// come out. Clients are numbered from 0, as the tasks of this node; each uses PMI-1 or PMI-2, as its first message
// demands. PMI 1.2 is 1.1 with barriers of some processes, several at a time.
//
// A client's fault harms no other. If the protocol can refuse a request, the answer refuses it; otherwise (a line
// without end, a second barrier before the first is over) the client is dropped, and the other clients' barriers go
// on without it. Barriers wait for clients that may still come, but not for one that has finalized, has left, or
// was dropped.
#pragma once

#include "pmi/key_exchange.hpp"
#include "pmi/kvs.hpp"
#include "pmi/message.hpp"
#include "pmi/spawn.hpp"

namespace nacre::pmi {

// A process group, what its server knows of each client, and the events that the server has for its owner.

// The limits that get_maxes announces, with the final NUL of C. MPICH 4.0 reads lines of 1,024 bytes, and fails an
// assertion if the limits are larger.
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
  // Whether a client that asks for PMI 1.1 is answered with 1.2, as MPICH 5 expects; null: no client is. Flux's
  // client refuses such an answer.
  std::function<bool(std::uint32_t client)> takes_groups = nullptr;

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
  bool left_waiting = false;  // it was waiting when it left
  std::uint64_t barriers = 0;
  std::string last_command;
  std::uint32_t group_barriers = 0;  // of PMI 1.2, in which it waits
};

// The events for the server's owner.
struct Fence {        // all clients are in the barrier; the owner answers with fenced()
  EntryRefs entries;  // put since the last fence; they belong to the server
};
struct GroupFence {  // the same for a barrier of some processes; the owner answers with group_fenced()
  BarrierGroup group;
  std::vector<std::uint32_t> clients;  // its processes on this node
  EntryRefs entries;  // put since the group's last fence, or the last of all; they belong to the server
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
  std::uint64_t bytes = 0;              // how many would have been stored
  std::uint64_t limit = 0;              // of the quota
};
using Event = std::variant<Fence, Abort, Dropped, SpawnRequest, Full, GroupFence>;

// What the clients of a process group have stored on this node: keys, attributes of the job and of the node, and,
// with the other groups, names. Everything is charged to the quota.
class GroupKeys : Noncopyable {
 public:
  // All have to outlive it; `quota` may be null: no limit. `events` gets a Full if something is refused.
  GroupKeys(Names& names, Quota* quota, std::vector<Event>& events)
      : names_(names), quota_(quota), events_(events) {}
  ~GroupKeys();

  Result<void> put(std::uint32_t client, std::string_view key, std::string_view value);
  [[nodiscard]] const std::string* get(std::string_view key) const;           // a key that was put, or an attribute
  [[nodiscard]] EntryRefs take_fresh() { return std::exchange(fresh_, {}); }  // put since the last call
  [[nodiscard]] const EntryRefs& fresh() const { return fresh_; }
  // The n-th key that this node has learnt; null: there are not that many.
  [[nodiscard]] EntryRefs::value_type at(std::uint64_t n) const { return n < known_.size() ? known_[n] : nullptr; }
  // Stores what all nodes have put, or, if that is more than the quota allows, nothing.
  Result<void> take_over(Entries others);

  void set_attribute(std::string_view key, std::string_view value);  // of the job
  [[nodiscard]] const std::string* attribute(std::string_view key) const { return attributes_.find(key); }
  Result<void> put_node_attribute(std::uint32_t client, std::string_view key, std::string_view value);
  [[nodiscard]] const std::string* node_attribute(std::string_view key) const { return node_attributes_.find(key); }

  Result<void> publish(std::uint32_t client, std::string_view name, std::string_view port);
  [[nodiscard]] Names& names() { return names_; }

 private:
  Result<void> look_for_room(std::uint32_t client, std::string_view key, std::string_view value);
  Error refuse(std::optional<std::uint32_t> client, std::uint64_t bytes);
  void charge();  // updates the quota by what is stored now

  Names& names_;
  Quota* quota_;
  std::vector<Event>& events_;
  Kvs kvs_;
  Kvs attributes_;
  Kvs node_attributes_;
  EntryRefs known_;            // of kvs_, whose entries stay
  EntryRefs fresh_;            // of kvs_
  std::uint64_t charged_ = 0;  // to the quota
};

class Server : Noncopyable {
 public:
  // `names` is shared by all groups of a job, and outlives the server.
  Server(ClientGroup group, Names& names);

  void receive(std::uint32_t client, std::string_view bytes);
  void closed(std::uint32_t client);                   // its stream has ended
  void ended(std::uint32_t client) { leave(client); }  // its process has gone
  void reopened(std::uint32_t client);  // its process has gone before init, and another one replaces it
  // With an error, or with more keys than the quota allows, the barrier fails and no key is stored.
  void fenced(Result<Entries> others);
  void group_fenced(const std::string& name, Result<Entries> others);
  // Processes of the group on other nodes are in its barrier, but this node's have not all come: it follows with a
  // GroupFence once all of its own that may still come are in it.
  void group_awaited(const BarrierGroup& group);
  // The kvsname of the new group, and an error code for each requested process, 0 if it runs.
  void spawned(std::uint32_t client, const Result<std::string>& kvsname, const std::vector<int>& codes);

  // Sets a key that clients find in the group's space, and that is an attribute of the job.
  void set_attribute(std::string_view key, std::string_view value) { keys_.set_attribute(key, value); }

  [[nodiscard]] const ClientGroup& group() const { return group_; }
  [[nodiscard]] const std::vector<ClientProgress>& clients() const { return clients_; }
  [[nodiscard]] bool barrier_begun() const { return waiting_ > 0; }
  [[nodiscard]] bool group_barrier_begun() const { return group_waiting_ > 0; }
  [[nodiscard]] bool in_use() const { return joined_ > 0; }  // a client has called init

  // Output: the clients that have some, and the bytes for each, which stay until they are taken.
  void take_pending(std::vector<std::uint32_t>& out);  // replaces what is in `out`
  [[nodiscard]] std::string& output(std::uint32_t client) { return connections_[client].output; }
  [[nodiscard]] std::vector<Event> take_events() { return std::exchange(events_, {}); }

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
    bool groups = false;       // PMI 1.2
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

  struct GroupBarrier {
    BarrierGroup group;
    std::vector<std::uint32_t> members;           // clients
    std::map<std::uint32_t, std::uint32_t> come;  // by client: how often it waits in it, one after the other
    bool is_awaited = false;                      // on other nodes
    bool fencing = false;                         // as fencing_
    std::size_t given = 0;                        // of the fresh keys, with this fence
  };
  Result<void> enter_group_barrier(std::uint32_t client, std::string_view text);
  GroupBarrier& group_barrier(BarrierGroup group);
  void check_group_barrier(GroupBarrier& barrier);
  void check_group_barriers();
  [[nodiscard]] bool may_come(std::uint32_t client) const;

  std::string& reply(std::uint32_t client);  // its output, to append to
  BodyWriter reply(std::uint32_t client, std::string_view command, std::string_view thread);

  ClientGroup group_;
  std::vector<Event> events_;
  GroupKeys keys_;
  std::vector<ClientProgress> clients_;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> pending_;
  std::uint32_t expected_ = 0;                          // clients that barriers wait for
  std::uint32_t waiting_ = 0;                           // in the barrier
  std::uint32_t joined_ = 0;                            // clients that have ever called init
  bool fencing_ = false;                                // the barrier is full, and fenced() has not been called
  std::map<std::string, GroupBarrier> group_barriers_;  // by name
  std::map<std::string, std::size_t> given_;            // how many of the fresh keys have these ranks, as text
  std::uint32_t group_waiting_ = 0;                     // sum of ClientProgress::group_barriers
};

}  // namespace nacre::pmi
