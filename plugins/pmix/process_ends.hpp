// SPDX-License-Identifier: Apache-2.0
//
// How the processes of this shell end, also by PMIx_Abort, and what follows for the others: the job ends, or they
// go on and are notified (fault-tolerance), or nothing, as all start again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "alarms.hpp"
#include "clients.hpp"
#include "flux.hpp"
#include "peers.hpp"
#include "served_job.hpp"
#include "server.hpp"
#include "stand_ins.hpp"

namespace nacre::pmix {

class ProcessEnds {
 public:
  // `read_requests` handles what clients have sent so far.
  ProcessEnds(ServerApi& server, Clients& clients, ServedJob& job, Alarms& alarms, StandIns& stand_ins,
              std::function<void()> read_requests);

  // A start of all tasks, from begin() to end().
  void begin(Peers& peers) { peers_ = &peers; }
  void end();

  void connected(const pmix_proc_t& id);  // it has called PMIx_Init
  void ended(const pmix_proc_t& id, PmixClient& client, int wait_status);
  // In its place: the process ended, and its task starts again. Nothing follows for the others.
  void starts_again(const pmix_proc_t& id, PmixClient& client, int wait_status);
  void aborted(const pmix_proc_t& id, int status, const std::string& message, const std::vector<pmix_proc_t>& ids,
               OperationReply reply);
  // This client has asked for the end of the whole job, by PMIx_Job_control: SIGTERM, or SIGKILL.
  void end_as_asked(const pmix_proc_t& id, const PmixClient& client, int signum);
  void connection_lost(const pmix_proc_t& id);
  void shell_lost(std::uint32_t shell);

  // Whether a client has died, and no fence may come to its end without it. `local`: of libpmix.
  [[nodiscard]] bool misses_client(pmix_status_t local) const;
  // What libpmix has of this start's processes; see Service::end_former_start().
  [[nodiscard]] bool may_be_damaged() const { return may_be_damaged_; }

 private:
  struct Abort {
    int status = 0;
    std::string message;
  };

  void note_end(PmixClient& client, int wait_status);
  void end_job(const pmix_proc_t& id, const PmixClient& client, const std::string& how);
  void raise_abort(const pmix_proc_t& id, const PmixClient& client, const Abort& abort);
  void abort_later(const pmix_proc_t& id, Abort abort);
  void notify_others(const pmix_proc_t& id, int wait_status, bool on_all_nodes);

  ServerApi& server_;
  Clients& clients_;
  ServedJob& job_;
  Alarms& alarms_;
  StandIns& stand_ins_;
  std::function<void()> read_requests_;
  Peers* peers_ = nullptr;  // of the start that has begun
  // Were killed while no process of theirs had called PMIx_Init here, and so are no loss unless one does.
  std::vector<pmix_proc_t> killed_early_;
  std::map<pmix_rank_t, Abort> aborts_;  // of tasks that have called PMIx_Abort, until it is known how they end
  bool may_be_damaged_ = false;
};

}  // namespace nacre::pmix
