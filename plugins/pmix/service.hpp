// SPDX-License-Identifier: Apache-2.0
//
// What the shell does for its PMIx clients. All of it runs on the loop's thread: callbacks.cpp brings the requests
// there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <jansson.h>

#include "alarms.hpp"
#include "client.hpp"
#include "clients.hpp"
#include "flux.hpp"
#include "inbox.hpp"
#include "info.hpp"
#include "peers.hpp"
#include "query_answer.hpp"
#include "served_job.hpp"
#include "server.hpp"
#include "spawns.hpp"

namespace nacre::pmix {

bool is_fault_tolerant(flux_shell_t* shell);  // the option `fault-tolerance`

class Service {
 public:
  using Times = ServerTimes;

  Service(flux_plugin_t* plugin, flux_shell_t* shell, std::unique_ptr<ServerApi> server, Times times);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Topics. They return 0, or -1 after one line in the log.
  int start();
  int prepare_task(flux_shell_task_t* task);
  int task_started(flux_shell_task_t* task);
  int task_ended(flux_shell_task_t* task);
  void tasks_are_over(), stop();
  void shell_lost(std::uint32_t shell);
  // Tasks that start again (service_restart.cpp).
  std::string how_to_restart(std::uint32_t rank);  // what pmi.restart is answered; also for one of a lost shell
  int await_start(std::uint64_t start);            // all are going to, some of them perhaps here for the first time
  int start_again();
  // This shell is about to leave the job, which goes on: how its processes end has no consequence.
  void shell_leaves() { ending_ = true; }

  // Requests of clients.
  void connected(const pmix_proc_t& id, OperationReply reply);
  void finalized(const pmix_proc_t& id, OperationReply reply);
  void connection_lost(const pmix_proc_t& id);
  void forgotten(const pmix_proc_t& id);
  void aborted(const pmix_proc_t& id, int status, const std::string& message, const std::vector<pmix_proc_t>& ids,
               OperationReply reply);
  void query(const std::vector<ClientQuery>& queries, InfoReply reply);
  void log(const pmix_proc_t& id, const InfoList& data, OperationReply reply);
  void control(const pmix_proc_t& id, const std::vector<pmix_proc_t>& targets, const InfoList& directives,
               InfoReply reply);
  void group(GroupCall call, InfoReply reply);
  using App = SpawnApp;
  void spawn(const pmix_proc_t& id, const InfoList& job, const std::vector<App>& apps, pmix_spawn_cbfunc_t function,
             void* data);

  // Topics about spawns, see spawns.cpp.
  int spawn_begins(flux_plugin_arg_t* args);  // 0, or -1
  void spawn_started(flux_plugin_arg_t*args), spawn_exited(flux_plugin_arg_t*args);
  void spawn_settled(flux_plugin_arg_t*args), spawns_over();

  [[nodiscard]] const Clients& clients() const { return clients_; }
  [[nodiscard]] ReactorInbox& inbox() { return *inbox_; }
  [[nodiscard]] Peers& peers() { return *peers_; }
  [[nodiscard]] bool fault_tolerant() const { return fault_tolerant_; }
  [[nodiscard]] bool outlives_clients() const { return fault_tolerant_ || again_.is_on; }  // the server does

 private:
  void mark(const char* what, const pmix_proc_t& id);
  int make_directory(), separate_segments(), listen();
  bool serves(const JobFacts& facts);
  int serve_start(std::uint64_t start, JobFacts facts);

  // How processes end (process_ends.cpp).
  void ended(const pmix_proc_t& id, PmixClient& client, int wait_status);
  void end_job(const pmix_proc_t& id, const PmixClient& client, const std::string& how);
  void notify_others(const pmix_proc_t& id, int wait_status, bool on_all_nodes);
  void stand_in_later(const pmix_proc_t&id), connected_late(const pmix_proc_t&id), forget(const pmix_proc_t&id);
  void raise_abort(const pmix_proc_t& id, const PmixClient& client, const RestartState::Abort& abort);
  // To start again (service_restart.cpp).
  [[nodiscard]] bool misses_client(pmix_status_t local) const;
  void starts_again(const pmix_proc_t& id, PmixClient& client, int wait_status);
  void abort_later(const pmix_proc_t& id, RestartState::Abort abort);
  void end_former_start();

  // service_requests.cpp
  [[nodiscard]] std::vector<Rank> elsewhere(const pmix_proc_t& id, const std::vector<pmix_proc_t>& targets) const;

  // spawns.cpp
  void answer_spawn(std::uint64_t number, const std::string& nspace, int error, const char* why);
  Namespace namespace_of(json_t* spawn);
  std::string add_namespace(Namespace space, json_t* environments);
  Namespace* spawned_namespace(json_t* spawn);
  void drop_spawned(int signum), forget_spawns(), watch_signals();

  flux_plugin_t* plugin_;
  flux_shell_t* shell_;
  std::unique_ptr<ServerApi> server_;
  Times times_;
  bool fault_tolerant_ = false;
  bool ending_ = false;                 // the job is being ended, or this shell leaves it
  bool over_ = false, spoilt_ = false;  // the tasks have ended; see ended()
  std::string directory_;               // absolute
  Clients clients_;
  SpawnState spawns_;
  std::vector<pmix_proc_t> missing_, forgetting_;  // that ended without a connection; that libpmix is working on
  std::vector<flux_subprocess_t*> stand_ins_;
  std::vector<flux_watcher_t*> signals_;
  Alarms alarms_;
  std::uint64_t group_calls_ = 0;  // in all starts
  RestartState again_;
  std::unique_ptr<PeerLink> link_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<ReactorInbox> inbox_;  // has to be destroyed before the server
};

}  // namespace nacre::pmix
