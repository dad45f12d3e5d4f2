// SPDX-License-Identifier: Apache-2.0
//
// What the processes of a job request from each other's nodes: collectives, groups, each other's data, published
// data, events, signals. A request becomes a message to all shells, and is answered when this shell receives its
// own message: by then all nodes that need it have it. All runs on the loop's thread.
//
// A job of one shell receives only its own messages. In messages a process is named by its number of ProcessMap.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collectives.hpp"
#include "flux.hpp"
#include "group_call.hpp"
#include "info.hpp"
#include "peer_groups.hpp"
#include "peer_link.hpp"
#include "peer_message.hpp"
#include "peer_tables.hpp"
#include "process_map.hpp"
#include "server.hpp"
#include "store.hpp"

namespace nacre::pmix {

class Peers {
 public:
  struct Duties {
    std::function<void(const std::vector<pmix_proc_t>& targets, int signum)> signal;  // to those of this shell
    std::function<void(double seconds, std::function<void()> function)> after;
    // Whether a client of this shell has died, and no fence may come to its end without it. `local`: of libpmix.
    std::function<bool(pmix_status_t local)> misses_client;
    std::function<std::vector<ProcessRow>(const std::string& nspace)> rows;  // of this shell
  };

  struct Shells {
    std::uint32_t own = 0;
    std::uint32_t count = 1;
  };
  // For one start of the tasks. `home`: their namespace. It, the link and the server have to outlive this object.
  Peers(PeerLink& link, ServerApi& server, const JobFacts& home, Shells shells, Duties duties);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  void receive(const PeerMessage& message);
  // All that clients wait for is answered: they have ended.
  void give_up();

  // Of a namespace that is spawned. Until it is settled other shells may not know it yet, so what its processes
  // request from those waits.
  void add(const JobFacts& facts);
  void settled(const std::string& nspace, bool is_there);

  [[nodiscard]] bool several() const { return shells_.count > 1; }

  // Requests of clients. A timeout is in seconds, 0: none.
  void fence(const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes, double timeout,
             ModexReply reply);
  void connect(char kind, const std::vector<pmix_proc_t>& procs, double timeout, OperationReply reply);
  void group(const GroupCall& call, InfoReply reply);
  // The rows of all processes of a namespace, but those on shells that do not answer within so many seconds.
  void list(const std::string& nspace, double seconds, ProcessTables::Done done);
  // What the process has committed, once that has `key`, if one is named.
  void direct_modex(const pmix_proc_t& proc, const std::string& key, double timeout, ModexReply reply);
  void publish(const pmix_proc_t& id, const InfoList& info, OperationReply reply);
  void look_up(const pmix_proc_t& id, const std::vector<std::string>& keys, const InfoList& directives,
               pmix_lookup_cbfunc_t function, void* data);
  void unpublish(const pmix_proc_t& id, const std::vector<std::string>& keys, const InfoList& directives,
                 OperationReply reply);
  // Passes an event on to the clients of the other nodes.
  void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, const InfoList& info);
  void signal(const std::vector<Rank>& numbers, int signum);

  // libpmix's result for a question of another shell; ignored if that has been answered.
  void found(std::uintptr_t question, pmix_status_t status, std::string bytes);
  void key_looked_up(std::uintptr_t question, bool is_there);

  // A process of this shell has ended; `others_care`: others may wait for it.
  void ended(const pmix_proc_t& id, bool others_care);
  void namespace_ended(const std::string& nspace);
  void over();  // the processes of this shell have ended
  void lost(std::uint32_t shell);
  [[nodiscard]] bool has_ended(Rank number) const { return ended_.count(number) > 0; }  // as far as is known
  [[nodiscard]] const ProcessMap& processes() const { return processes_; }
  // Those of a shell that have not ended.
  [[nodiscard]] std::vector<pmix_proc_t> left_on(std::uint32_t shell) const;

 private:
  struct Request {  // this shell waits for its result
    OperationReply reply;
    pmix_lookup_cbfunc_t look_up = nullptr;
    void* data = nullptr;
    ModexReply modex;
    InfoReply info;
    std::optional<std::uint32_t> asked;  // the shell that was asked, for a direct modex
    void answer(pmix_status_t status, const std::string& bytes = {}) const;
  };

  void send(PeerMessage message);
  std::uint64_t expect(const Request& request, double timeout = 0);
  Request take(std::uint64_t number);  // an empty one if it is not this shell's, or was answered
  void left_by(std::uint32_t shell, const std::string& nspace);
  // If libpmix has data of a process that has ended it answers at once, or never.
  static constexpr double kAnswerTime = 1;  // second
  void receive_question(const PeerMessage& message);
  void look_up(std::uintptr_t question);
  void find_all(std::uintptr_t question);
  void give_up_after(double seconds, std::uintptr_t question, pmix_status_t status);
  void receive_of_store(const PeerMessage& message);
  void receive_signal(const PeerMessage& message);
  void receive_end(const PeerMessage& message);
  void receive_event(const PeerMessage& message);
  bool is_held(const std::vector<pmix_proc_t>& procs, pmix_status_t local, double timeout, const Request& request);
  std::optional<std::vector<Rank>> may_come(const std::vector<pmix_proc_t>& procs, const Request& request,
                                            std::function<void()> again);
  void come(char kind, const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes,
            double timeout, const Request& request);
  // Whether it waits until the namespace is settled; then `work` is done, with whether the namespace is there.
  bool postponed(const std::string& nspace, std::function<void(bool is_there)> work);
  [[nodiscard]] std::optional<std::vector<Rank>> numbers_of(const std::vector<pmix_proc_t>& procs) const;
  [[nodiscard]] bool is_of_this_start(const pmix_proc_t& proc) const;

  PeerLink& link_;
  ServerApi& server_;
  const JobFacts& home_;
  Shells shells_;
  Duties duties_;
  Collectives collectives_;
  PublishedData store_;
  std::map<std::uint64_t, Request> requests_;  // by number
  std::uint64_t last_request_ = 0;
  struct Question {
    Rank process = 0;         // its number
    std::uint32_t shell = 0;  // the shell that asks
    std::uint64_t number = 0;
    std::string key;             // has to be there; "": none in particular
    bool has_timeout = false;    // of the client's
    bool has_committed = false;  // something, as far as is known
    bool takes_all = false;      // what is there by now is the answer
  };
  std::map<std::uintptr_t, Question> questions_;  // not answered yet
  ProcessMap processes_;
  PeerGroups groups_;
  PeerTables tables_;
  std::set<Rank> ended_;                                                     // numbers
  std::map<std::string, std::vector<std::function<void(bool)>>> unsettled_;  // by namespace
  std::map<std::string, std::set<std::uint32_t>> left_;     // by spawned namespace: shells on which some may run
  std::set<std::uint32_t> over_;                            // shells whose processes have all ended
  std::set<std::pair<std::string, pmix_rank_t>> in_store_;  // processes of this shell that have used the store
};

}  // namespace nacre::pmix
