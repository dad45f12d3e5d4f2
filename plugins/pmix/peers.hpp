// SPDX-License-Identifier: Apache-2.0
//
// What the processes of a job request from each other's nodes: collectives, each other's data, published data,
// events, signals. A request becomes a message to all shells, and is answered when this shell receives its own
// message: by then all nodes that need it have it. All runs on the loop's thread.
//
// A job of one shell receives only its own messages.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives.hpp"
#include "flux.hpp"
#include "info.hpp"
#include "peer_link.hpp"
#include "peer_message.hpp"
#include "server.hpp"
#include "store.hpp"

namespace nacre::pmix {

struct ModexReply {
  pmix_modex_cbfunc_t function = nullptr;
  void* data = nullptr;
  void operator()(pmix_status_t status, const std::string& bytes = {}) const;  // libpmix gets a copy
};

class Peers {
 public:
  struct Duties {
    // To those of the ranks that are on this shell
    std::function<void(const std::vector<Rank>& ranks, int signum)> signal;
    std::function<void(double seconds, std::function<void()> function)> after;
    // Whether a client of this shell has died, and no fence may come to its end without it. `local`: of libpmix.
    std::function<bool(pmix_status_t local)> misses_client;
  };

  // For one start of the tasks. `home`: their namespace. It, the link and the server have to outlive this object.
  Peers(PeerLink& link, ServerApi& server, const JobFacts& home, Duties duties);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void receive(const PeerMessage& message);
  // All that clients wait for is answered: they have ended.
  void give_up();

  [[nodiscard]] bool several() const { return home_.nodes.size() > 1; }
  // Whether one of them may be on another node.
  [[nodiscard]] bool reaches_out(const std::vector<pmix_proc_t>& procs) const;

  // Requests of clients. A timeout is in seconds, 0: none.
  void fence(const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes, double timeout,
             ModexReply reply);
  void connect(char kind, const std::vector<pmix_proc_t>& procs, double timeout, OperationReply reply);
  void direct_modex(const pmix_proc_t& proc, double timeout, ModexReply reply);
  void publish(const pmix_proc_t& id, const InfoList& info, OperationReply reply);
  void look_up(const pmix_proc_t& id, const std::vector<std::string>& keys, const InfoList& directives,
               pmix_lookup_cbfunc_t function, void* data);
  void unpublish(const pmix_proc_t& id, const std::vector<std::string>& keys, const InfoList& directives,
                 OperationReply reply);
  // Passes an event on to the clients of the other nodes.
  void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, const InfoList& info);
  void signal(const std::vector<Rank>& ranks, int signum);

  // libpmix's result for a question of another shell; ignored if that has been answered.
  void found(std::uintptr_t question, pmix_status_t status, std::string bytes);

  // A process of this shell has ended; `others_care`: others may wait for it.
  void ended(const pmix_proc_t& id, bool others_care);
  void namespace_ended(const std::string& nspace);
  void over();  // the processes of this shell have ended
  void lost(std::uint32_t shell);
  [[nodiscard]] bool has_ended(Rank rank) const { return ended_.count(rank) > 0; }  // as far as is known

 private:
  struct Request {  // this shell waits for its result
    OperationReply reply;
    pmix_lookup_cbfunc_t look_up = nullptr;
    void* data = nullptr;
    ModexReply modex;
    std::optional<std::uint32_t> asked;  // the shell that was asked, for a direct modex
    void answer(pmix_status_t status, const std::string& bytes = {}) const;
  };

  void send(PeerMessage message);
  std::uint64_t expect(const Request& request, double timeout = 0);
  Request take(std::uint64_t number);  // an empty one if it is not this shell's, or was answered
  void receive_question(const PeerMessage& message);
  void receive_of_store(const PeerMessage& message);
  void receive_end(const PeerMessage& message);
  void receive_event(const PeerMessage& message);
  void come(char kind, const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes,
            double timeout, const Request& request);

  [[nodiscard]] bool is_of_this_start(const pmix_proc_t& proc) const;

  PeerLink& link_;
  ServerApi& server_;
  const JobFacts& home_;
  Duties duties_;
  Collectives collectives_;
  PublishedData store_;
  std::map<std::uint64_t, Request> requests_;  // by number
  std::uint64_t last_request_ = 0;
  struct Question {
    Rank rank = 0;
    std::uint32_t shell = 0;  // the shell that asks
    std::uint64_t number = 0;
  };
  std::map<std::uintptr_t, Question> questions_;  // those that libpmix is working on
  std::map<Rank, std::uint32_t> shell_of_;
  std::set<Rank> ended_;
  std::set<std::uint32_t> over_;                            // shells whose processes have all ended
  std::set<std::pair<std::string, pmix_rank_t>> in_store_;  // processes of this shell that have used the store
};

}  // namespace nacre::pmix
