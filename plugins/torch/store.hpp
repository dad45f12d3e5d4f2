// SPDX-License-Identifier: Apache-2.0
//
// The store by which the processes of torch.distributed find each other, served by every shell to the tasks of its
// own node (store_requests.hpp has what they say). No rank owns it, so it outlives any of them.
//
// Each shell has all keys. Changes are announced, so all shells make them in one order; a client gets the answer
// once its own shell has made the change. While an announcement of a shell is on its way, further changes wait, and
// go together in the next one. Requests that change nothing are answered from this shell's keys, after the client's
// own changes. So a client sees what another has changed once both shells have it: to learn of a change, wait for a
// key, or add to one.
//
// A shell that joins a running job asks the leader for all keys (`torch.store.ask`), and serves once it has them.
// When all tasks of the job start again the store is empty again.
#pragma once

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/loopback_port.hpp"
#include "plugins/torch/store_keys.hpp"
#include "plugins/torch/store_requests.hpp"
#include "task/stream.hpp"

namespace nacre::plugins {

class TorchStore {
 public:
  TorchStore(plugin::Host& host, plugin::Plugin& plugin);

  // Before it is called the store only keeps the keys, for others. Port 0: any free port.
  Result<void> listen(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const { return port_->number(); }
  // Asks for changes that were announced before this shell joined.
  Result<void> catch_up();
  // All tasks of the job start again, and with them a store without keys.
  void begin_again(std::uint64_t restarts);

 private:
  using ClientId = std::uint64_t;
  struct Client {
    std::unique_ptr<task::BufferedStream> stream;
    StoreRequests requests;
    std::size_t changes = 0;           // its own that are on their way
    std::optional<StoreRequest> held;  // a request that waits until those are made
    std::size_t missing = 0;           // keys that it waits for
    std::string waited;                // the only key of its last request, a wait
    std::optional<StoreRequest> pop;   // a pop that waits until its queue has something
    bool is_over = false;
  };
  struct Batch {
    std::string bytes;
    std::vector<ClientId> clients;  // of each change
  };

  void connect(UniqueFd connection);
  void serve(ClientId id);
  void serve_all();
  [[nodiscard]] bool is_behind() const;
  void take(ClientId id, Client& client, StoreRequest request);
  void wait(ClientId id, Client& client, const std::vector<std::string>& keys);
  void stop_waiting(ClientId id, Client& client);
  void answer(ClientId id, Client& client, std::string_view bytes);
  void end(ClientId id, Client& client, const std::string& why);

  void change(ClientId id, Client& client, StoreRequest request);
  void send_changes();
  void receive(std::string_view topic, std::string_view bytes);
  void receive_changes(std::string_view bytes);
  void make(std::optional<ClientId> own, StoreRequest request);
  void changed(const std::string& key);
  void give_keys(std::string_view asker);
  void receive_keys(std::string_view bytes);

  plugin::Host& host_;
  plugin::Plugin& plugin_;
  std::unique_ptr<LoopbackPort> port_;
  StoreKeys keys_;
  std::uint64_t keys_since_ = 0;  // the job's number of restarts when the keys were first set
  std::uint64_t restarts_ = 0;    // that number for this shell's clients
  bool is_complete_ = true;       // this shell has all keys
  bool has_asked_ = false;
  std::vector<std::string> early_;  // changes behind the question, until its answer has come

  std::unordered_map<ClientId, Client> clients_;
  ClientId next_ = 0;
  std::unordered_map<std::string, std::vector<ClientId>> waiting_;  // by key
  std::optional<event::Timer> sweep_;                               // removes clients whose connection is over

  std::deque<Batch> batches_;  // the first one is on its way if `is_under_way_`
  bool is_under_way_ = false;
  bool is_sending_ = false;
  plugin::Registration announcements_;
};

}  // namespace nacre::plugins
