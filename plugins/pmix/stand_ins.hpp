// SPDX-License-Identifier: Apache-2.0
//
// A process that ended before it had a connection is still a member of each collective operation of its namespace.
// If it has no connection after a while, libpmix is to forget it, with all that is half done for it, and another
// process stands in for it: pmix-stand-in. Only with fault-tolerance: the others go on.
#pragma once

#include <string>
#include <vector>

#include "alarms.hpp"
#include "flux.hpp"
#include "served_job.hpp"
#include "server.hpp"

namespace nacre::pmix {

class StandIns {
 public:
  StandIns(flux_plugin_t* plugin, flux_shell_t* shell, ServerApi& server, Alarms& alarms, ServerTimes times,
           ServedJob& job)
      : plugin_(plugin), shell_(shell), server_(server), alarms_(alarms), times_(times), job_(job) {}
  ~StandIns() { clear(); }
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  // This process ended without a connection. `failure`: the job's wait status, should libpmix not get over that.
  void expect_for(const pmix_proc_t& id, int failure);
  void connected(const pmix_proc_t& id);        // by a process that has ended by now, or by its stand-in
  void connection_lost(const pmix_proc_t& id);  // likewise
  void forgotten(const pmix_proc_t& id);        // by libpmix
  void clear();                                 // those that have been started are of no interest any more

 private:
  void forget(const pmix_proc_t& id, int failure);
  [[nodiscard]] std::string start(const pmix_proc_t& id);  // why not

  flux_plugin_t* plugin_;
  flux_shell_t* shell_;
  ServerApi& server_;
  Alarms& alarms_;
  ServerTimes times_;
  ServedJob& job_;
  std::vector<pmix_proc_t> missing_, forgetting_;  // without a connection; those that libpmix is to forget
  std::vector<flux_subprocess_t*> started_;
};

}  // namespace nacre::pmix
