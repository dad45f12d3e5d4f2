// SPDX-License-Identifier: Apache-2.0
//
// What the shell does for its PMIx clients. All of it runs on the loop's thread, to which service.cpp passes the
// requests.
#pragma once

#include "spawns.hpp"

namespace nacre::pmix {

// Watches the signals that ask a shell to end its job: once one has come, the job counts as ending.
class EndSignals {
 public:
  EndSignals(flux_shell_t* shell, ServedJob& job) : shell_(shell), job_(job) {}
  ~EndSignals() { ignore(); }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;

  void watch();
  void ignore();  // from now on

 private:
  flux_shell_t* shell_;
  ServedJob& job_;
  std::vector<flux_watcher_t*> watchers_;
};

// Passes work from libpmix's thread to the shell's loop, which does it in the order of posting.
class ReactorInbox {
 public:
  using Letter = std::function<void()>;

  static std::unique_ptr<ReactorInbox> create(flux_reactor_t* reactor);  // nullptr with errno
  ~ReactorInbox();
  ReactorInbox(const ReactorInbox&) = delete;
  ReactorInbox& operator=(const ReactorInbox&) = delete;

  void post(Letter letter);  // may be called from any thread
  void read();               // on the loop's thread: runs all that was posted so far

 private:
  explicit ReactorInbox(int fd) : fd_(fd) {}

  int fd_;
  flux_watcher_t* watcher_ = nullptr;
  std::mutex mutex_;
  std::vector<Letter> letters_;
};

// One client's call of PMIx_Query_info, as far as libpmix cannot answer it itself. Other shells may have to be
// asked; the answer is sent once all of them have answered or were given up.
struct ClientQuery {
  std::vector<std::string> keys;
  InfoList qualifiers;
};

// Held by shared pointers: `peers` has one while other shells are asked.
class QueryAnswer : public std::enable_shared_from_this<QueryAnswer> {
 public:
  // `lost`: the lost shells. All but the reply have to outlive this object.
  QueryAnswer(flux_shell_t* shell, const Clients& clients, Peers& peers, const std::set<std::uint32_t>& lost,
              InfoReply reply)
      : shell_(shell), clients_(clients), peers_(peers), lost_(lost), reply_(reply) {}

  // Other shells have `seconds` to answer. To be called once.
  void find(const std::vector<ClientQuery>& queries, double seconds);

 private:
  bool find_key(const std::string& key, const InfoList& qualifiers, double seconds);
  bool add_time_remaining();
  bool add_sets(const std::string& key, const InfoList& qualifiers);
  void add_namespaces();
  void add_table(const char* key, const std::string& nspace, ProcessTables::Rows rows);
  [[nodiscard]] pmix_proc_state_t state_from_afar(Rank number) const;
  void close();

  flux_shell_t* shell_;
  const Clients& clients_;
  Peers& peers_;
  const std::set<std::uint32_t>& lost_;
  InfoReply reply_;
  InfoList results_;
  std::size_t keys_ = 0, found_ = 0;
  bool lacks_the_set_ = false;  // the set that was asked for by name does not exist
  std::size_t open_ = 1;        // how many answers are still to come
};

// The directory of libpmix's files on this node, in that of the job.
class ServerDirectory {
 public:
  // Makes it, unless it has been made. Returns 0, or -1 after one line in the log.
  int prepare(flux_shell_t* shell) { return path_.empty() ? make(shell) : 0; }

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute; "": it has not been made

 private:
  int make(flux_shell_t* shell);

  std::string path_;
};

class Service {
 public:
  using Times = ServerTimes;

  Service(flux_plugin_t* plugin, flux_shell_t* shell, std::unique_ptr<ServerApi> server, Times times);
  ~Service() { stop(); }
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
  // Tasks that start again (service.cpp).
  std::string how_to_restart(std::uint32_t rank);  // the answer to pmi.restart; also for a task of a lost shell
  int await_start(std::uint64_t start);  // all tasks will start again, some of them perhaps here for the first time
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
  // whether the server does
  [[nodiscard]] bool outlives_clients() const { return fault_tolerant() || job_.may_restart; }

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
  std::vector<pmix_proc_t> former_;  // the processes of the former start, which libpmix still has
  std::unique_ptr<PeerLink> link_;
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<ReactorInbox> inbox_;  // has to be destroyed before the server
};

// The functions that libpmix calls, on its own thread. Each copies its arguments and posts them to the service. As
// libpmix passes no argument of ours, a static pointer refers to the one service.
class Service;

// Has to be called before the server starts; nullptr: requests are refused from then on.
void serve(Service* service);

pmix_server_module_t server_module();

// For Server::forget(): `process` is a pmix_proc_t on the heap.
void process_forgotten(pmix_status_t status, void* process);

// For Server::find_modex(): `question` is its number.
void modex_found(pmix_status_t status, char* data, std::size_t size, void* question);

// For Server::look_up_key().
void key_looked_up(pmix_status_t status, std::uintptr_t question);

// For PMIX_ERR_LOST_CONNECTION.
void lost_connection(std::size_t handler, pmix_status_t status, const pmix_proc_t* source, pmix_info_t info[],
                     std::size_t ninfo, pmix_info_t results[], std::size_t nresults,
                     pmix_event_notification_cbfunc_fn_t done, void* data);

}  // namespace nacre::pmix
