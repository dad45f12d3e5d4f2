// SPDX-License-Identifier: Apache-2.0
//
// What the shell does for its PMIx clients. All of it runs on the loop's thread: callbacks.cpp brings the requests
// there.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "alarms.hpp"
#include "client.hpp"
#include "flux.hpp"
#include "inbox.hpp"
#include "info.hpp"
#include "peers.hpp"
#include "restart_state.hpp"
#include "server.hpp"

namespace nacre::pmix {

bool is_fault_tolerant(flux_shell_t* shell);  // the option `fault-tolerance`

class Service {
 public:
  // How many seconds libpmix may take.
  struct Times {
    double late_connection = 0.2;  // a connection that was being made when its process died is there by then
    double answer = 10;            // libpmix answers in less than a millisecond, or never
  };

  Service(flux_plugin_t* plugin, flux_shell_t* shell, std::unique_ptr<ServerApi> server, Times times);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Topics. They return 0, or -1 after one line in the log.
  int start();
  int prepare_task(flux_shell_task_t* task);
  int task_started(flux_shell_task_t* task);
  int task_ended(flux_shell_task_t* task);
  void tasks_are_over();
  void stop();
  void shell_lost(std::uint32_t shell);
  // Tasks that start again (restart.cpp).
  std::string how_to_restart(std::uint32_t rank);  // what pmi.restart is answered; also for one of a lost shell
  int await_start(std::uint64_t start);            // all are going to, some of them perhaps here for the first time
  int start_again();
  // This shell is about to leave the job, which goes on: how its processes end has no consequence.
  void shell_leaves() { end_spawned(); }

  // Requests of clients.
  void connected(const pmix_proc_t& id, OperationReply reply);
  void finalized(const pmix_proc_t& id, OperationReply reply);
  void connection_lost(const pmix_proc_t& id);
  void forgotten(const pmix_proc_t& id);
  void aborted(const pmix_proc_t& id, int status, const std::string& message, const std::vector<pmix_proc_t>& ids,
               OperationReply reply);
  struct Query {
    std::vector<std::string> keys;
    InfoList qualifiers;
  };
  void query(const std::vector<Query>& queries, InfoReply reply);
  void log(const pmix_proc_t& id, const InfoList& data, OperationReply reply);
  void control(const pmix_proc_t& id, const std::vector<pmix_proc_t>& targets, const InfoList& directives,
               InfoReply reply);
  void group(const std::string& name, const std::vector<pmix_proc_t>& members, const InfoList& directives,
             InfoReply reply);
  struct App {
    std::vector<std::string> argv, env;
    std::string directory;
    int count = 1;
  };
  void spawn(const pmix_proc_t& id, const InfoList& job, const std::vector<App>& apps, pmix_spawn_cbfunc_t function,
             void* data);

  // The tasks of this node that are between PMIx_Init and PMIx_Finalize, as an idset.
  [[nodiscard]] std::string connected_tasks() const;
  // "connected", "finalized" or "aborted" of a task of this node; "" if it has not called PMIx_Init.
  [[nodiscard]] const char* state_of_task(std::uint32_t rank) const;

  [[nodiscard]] ReactorInbox& inbox() { return *inbox_; }
  [[nodiscard]] Peers& peers() { return *peers_; }
  [[nodiscard]] bool fault_tolerant() const { return fault_tolerant_; }
  [[nodiscard]] bool outlives_clients() const { return fault_tolerant_ || again_.is_on; }  // the server does

 private:
  void mark(const char* what, const pmix_proc_t& id);
  int read_layout(std::uint64_t start, JobFacts& facts);
  int make_directory(), separate_segments(), listen();
  int serve_start(std::uint64_t start, JobFacts facts);
  PmixClient* find(const pmix_proc_t& id);
  std::string name_of(const pmix_proc_t& id, const PmixClient& client) const;
  pid_t pid_of(const PmixClient& client) const;

  // How processes end (process_exit.cpp).
  void ended(const pmix_proc_t& id, PmixClient& client, int wait_status);
  void end_job(const pmix_proc_t& id, const PmixClient& client, const std::string& how);
  void notify_others(const pmix_proc_t& id, int wait_status, bool on_all_nodes);
  void stand_in_later(const pmix_proc_t& id);
  void connected_late(const pmix_proc_t& id);
  void forget(const pmix_proc_t& id);
  void raise_abort(const pmix_proc_t& id, const PmixClient& client, const RestartState::Abort& abort);
  // To start again (restart.cpp).
  [[nodiscard]] bool misses_client(pmix_status_t local) const;
  void starts_again(const pmix_proc_t& id, PmixClient& client, int wait_status);
  void abort_later(const pmix_proc_t& id, RestartState::Abort abort);
  void end_former_start(), drop_spawned(int signum);

  // control.cpp
  std::vector<PmixClient*> targets_of(const pmix_proc_t& id, const std::vector<pmix_proc_t>& targets);
  std::vector<Rank> elsewhere(const pmix_proc_t& id, const std::vector<pmix_proc_t>& targets) const;

  // queries.cpp
  bool query_key(const std::string& key, const InfoList& qualifiers, InfoList& results);
  void add_process_table(InfoList& results, const char* key, const std::string& nspace);

  // spawn.cpp
  bool start_app(Namespace& space, const App& app, pmix_rank_t first);
  void spawned_ended(flux_subprocess_t* process, int wait_status);
  // Spawned processes belong to the job, but the shell itself sends signals only to its tasks.
  void watch_signals();
  void end_spawned();

  flux_plugin_t* plugin_;
  flux_shell_t* shell_;
  std::unique_ptr<ServerApi> server_;
  Times times_;
  bool fault_tolerant_ = false;
  bool ending_ = false;                 // the job is being ended, or this shell leaves it
  bool over_ = false, spoilt_ = false;  // the tasks have ended; see ended()
  std::string directory_;               // absolute
  std::string home_;                    // the namespace of the job's tasks, one for each start of all
  std::map<std::string, Namespace> namespaces_;
  std::map<flux_subprocess_t*, pmix_proc_t> spawned_;
  std::vector<pmix_proc_t> missing_, forgetting_;  // that ended without a connection; that libpmix is working on
  std::vector<flux_subprocess_t*> stand_ins_;
  std::vector<flux_watcher_t*> signals_;
  Alarms alarms_;
  std::uint32_t processes_ = 0;     // in all namespaces so far
  std::ptrdiff_t shells_here_ = 1;  // of the job, on this host
  std::size_t spawns_ = 0, contexts_ = 0;
  RestartState again_;
  std::unique_ptr<PeerLink> link_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<ReactorInbox> inbox_;  // has to be destroyed before the server
};

}  // namespace nacre::pmix
