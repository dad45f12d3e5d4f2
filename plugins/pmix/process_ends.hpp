// SPDX-License-Identifier: Apache-2.0
//
// How the processes of this shell end, also by PMIx_Abort, and what follows for the others: the job ends, or they
// go on and are notified (fault-tolerance), or nothing happens because all start again.
#pragma once

#include "clients.hpp"
#include "peers.hpp"

namespace nacre::pmix {

// Functions that are called once some seconds have passed.
class Alarms {
 public:
  explicit Alarms(flux_shell_t* shell) : shell_(shell) {}

  // Calls `function` after `seconds`, on the loop, unless clear() comes first or this object is destroyed.
  void after(double seconds, std::function<void()> function);
  void clear() { alarms_.clear(); }

 private:
  struct Alarm {
    ~Alarm() { flux_watcher_destroy(watcher); }
    std::function<void()> function;
    flux_watcher_t* watcher = nullptr;
  };

  flux_shell_t* shell_;
  std::vector<std::unique_ptr<Alarm>> alarms_;
};

// A process that ended before it had a connection is still a member of each collective operation of its namespace.
// If it has no connection after a while, libpmix has to forget it, with everything that is half done for it, and
// another process, pmix-stand-in, takes its place. This is done only with fault-tolerance, where the others go on.
class StandIns {
 public:
  StandIns(flux_plugin_t* plugin, flux_shell_t* shell, ServerApi& server, Alarms& alarms, ServerTimes times,
           ServedJob& job)
      : plugin_(plugin), shell_(shell), server_(server), alarms_(alarms), times_(times), job_(job) {}
  ~StandIns() { clear(); }
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  // This process ended without a connection. `failure`: the job's wait status if libpmix cannot cope with that.
  void expect_for(const pmix_proc_t& id, int failure);
  void connected(const pmix_proc_t& id);        // by a process that has ended by now, or by its stand-in
  void connection_lost(const pmix_proc_t& id);  // as connected()
  void forgotten(const pmix_proc_t& id);        // by libpmix
  void clear();                                 // programs that were started do not matter any more

 private:
  void forget(const pmix_proc_t& id, int failure);
  [[nodiscard]] std::string start(const pmix_proc_t& id);  // returns why not

  flux_plugin_t* plugin_;
  flux_shell_t* shell_;
  ServerApi& server_;
  Alarms& alarms_;
  ServerTimes times_;
  ServedJob& job_;
  std::vector<pmix_proc_t> missing_, forgetting_;  // without a connection; processes that libpmix is to forget
  std::vector<flux_subprocess_t*> started_;
};

class ProcessEnds {
 public:
  // `read_requests` handles what clients have sent so far.
  ProcessEnds(ServerApi& server, Clients& clients, ServedJob& job, Alarms& alarms, StandIns& stand_ins,
              std::function<void()> read_requests);

  // A start of all tasks, from begin() to end().
  void begin(Peers& peers) { peers_ = &peers; }
  void end();

  void connected(const pmix_proc_t& id);  // the process has called PMIx_Init
  void ended(const pmix_proc_t& id, PmixClient& client, int wait_status);
  // Called instead of exited(): the process has ended, and its task starts again. Nothing follows for the others.
  void starts_again(const pmix_proc_t& id, PmixClient& client, int wait_status);
  void aborted(const pmix_proc_t& id, int status, const std::string& message, const std::vector<pmix_proc_t>& ids,
               OperationReply reply);
  // This client has asked for the end of the whole job, by PMIx_Job_control: SIGTERM, or SIGKILL.
  void end_as_asked(const pmix_proc_t& id, const PmixClient& client, int signum);
  void connection_lost(const pmix_proc_t& id);
  void shell_lost(std::uint32_t shell);

  // Whether a client has died without which no fence may come to its end. `local`: libpmix's status.
  [[nodiscard]] bool misses_client(pmix_status_t local) const;
  // Whether libpmix's data about this start's processes may be damaged; see Service::end_former_start().
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
  // Processes that were killed before any of theirs had called PMIx_Init here; they are no loss unless one does.
  std::vector<pmix_proc_t> killed_early_;
  std::map<pmix_rank_t, Abort> aborts_;  // of tasks that have called PMIx_Abort, until it is known how they end
  bool may_be_damaged_ = false;
};

// The processes that a client means with a request, of those that have not ended.
struct Targets {
  std::vector<PmixClient*> here;
  std::vector<Rank> elsewhere;  // on other shells, as far as is known: their numbers, ascending

  [[nodiscard]] std::size_t size() const { return here.size() + elsewhere.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
};

// Those that are named; if none is named, all of the namespace of `id`.
Targets find_targets(Clients& clients, const Peers& peers, const pmix_proc_t& id,
                     const std::vector<pmix_proc_t>& named);

}  // namespace nacre::pmix
