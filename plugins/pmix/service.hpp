// SPDX-License-Identifier: Apache-2.0
//
// What the shell does for its PMIx clients. All of it runs on the loop's thread: callbacks.cpp brings the requests
// there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "alarms.hpp"
#include "clients.hpp"
#include "end_signals.hpp"
#include "flux.hpp"
#include "group_call.hpp"
#include "inbox.hpp"
#include "info.hpp"
#include "peer_link.hpp"
#include "peers.hpp"
#include "process_ends.hpp"
#include "query_answer.hpp"
#include "served_job.hpp"
#include "server.hpp"
#include "server_directory.hpp"
#include "spawns.hpp"
#include "stand_ins.hpp"

namespace nacre::pmix {

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
  void tasks_are_over();
  void spawns_over();
  void stop();
  // Tasks that start again (service_restart.cpp).
  std::string how_to_restart(std::uint32_t rank);  // what pmi.restart is answered; also for one of a lost shell
  int await_start(std::uint64_t start);            // all are going to, some of them perhaps here for the first time
  int start_again();
  // This shell is about to leave the job, which goes on: how its processes end has no consequence.
  void shell_leaves() { job_.is_ending = true; }

  // Requests of clients.
  void connected(const pmix_proc_t& id, OperationReply reply);
  void finalized(const pmix_proc_t& id, OperationReply reply);
  void query(const std::vector<ClientQuery>& queries, InfoReply reply);
  void log(const pmix_proc_t& id, const InfoList& data, OperationReply reply);
  void control(const pmix_proc_t& id, const std::vector<pmix_proc_t>& targets, const InfoList& directives,
               InfoReply reply);
  void group(GroupCall call, InfoReply reply);

  [[nodiscard]] const Clients& clients() const { return clients_; }
  [[nodiscard]] Spawns& spawns() { return spawns_; }
  [[nodiscard]] ProcessEnds& ends() { return ends_; }
  [[nodiscard]] StandIns& stand_ins() { return stand_ins_; }
  [[nodiscard]] ReactorInbox& inbox() { return *inbox_; }
  [[nodiscard]] Peers& peers() { return *peers_; }
  [[nodiscard]] bool fault_tolerant() const { return job_.tolerates_faults; }
  [[nodiscard]] bool outlives_clients() const { return fault_tolerant() || job_.may_restart; }  // the server does

 private:
  void mark(const char* what, const pmix_proc_t& id);
  bool serves(const JobFacts& facts);
  int prepare();  // for the first start that is served
  std::unique_ptr<Peers> make_peers(const JobFacts& home);
  int serve_start(std::uint64_t start, JobFacts facts);
  void end_former_start();

  flux_shell_t* shell_;
  std::unique_ptr<ServerApi> server_;
  Times times_;
  ServedJob job_;
  Alarms alarms_;
  Clients clients_;
  StandIns stand_ins_;
  ProcessEnds ends_;
  Spawns spawns_;
  EndSignals end_signals_;
  ServerDirectory directory_;
  bool over_ = false;                // the tasks have ended
  std::uint64_t group_calls_ = 0;    // in all starts
  std::vector<pmix_proc_t> former_;  // the processes of the start before, which libpmix still has
  std::unique_ptr<PeerLink> link_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<ReactorInbox> inbox_;  // has to be destroyed before the server
};

}  // namespace nacre::pmix
