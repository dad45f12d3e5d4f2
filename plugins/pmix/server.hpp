// SPDX-License-Identifier: Apache-2.0
//
// libpmix as a server. A process can have only one; it has a thread of its own.
#pragma once

#include "info.hpp"

namespace nacre::pmix {

struct ServerFacts {
  std::string nspace;     // the server's own
  pmix_rank_t rank = 0;   // the shell's rank
  std::string directory;  // for its files; it exists
  std::string host;
  // No client may hold a lock that the server or another client needs, as clients may die at any moment while the
  // server goes on. This costs time and memory.
  bool lockless = false;
};

// How many seconds libpmix may take.
struct ServerTimes {
  double late_connection = 0.2;  // by then a connection is there that was being made when its process died
  double answer = 10;            // libpmix answers in less than a millisecond, or never
  double list = 5;               // by then the other shells have answered with their processes, or are left out
};

// What the processes of a namespace can read about it, and what libpmix needs. Ranks are those of the namespace, in
// the order of its apps.
struct JobFacts {
  struct Node {
    std::string host;
    std::vector<pmix_rank_t> ranks;  // ascending
    std::uint32_t shell = 0;
  };
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  [[nodiscard]] std::uint32_t size() const;
  [[nodiscard]] const Node& here() const;  // without ranks if it is not among `nodes`

  std::string nspace;
  std::string job_id;
  std::string directory;        // the job's, on this node
  std::vector<Node> nodes;      // the nodes that have some of them: libpmix drops others from its maps
  std::uint32_t this_node = 0;  // of `nodes`; kNowhere: this node has none of its processes
  std::vector<std::uint32_t> app_sizes;
  std::uint32_t slots = 0;            // of the whole job
  std::uint32_t universe = 0;         // how many processes the job's resources have room for
  std::uint32_t global_offset = 0;    // the number of processes in earlier namespaces of the job
  std::optional<pmix_proc_t> parent;  // the process that spawned it
};

// libpmix as the service uses it: PmixServer, or a fake in tests. Functions that can fail return the reason, which
// is empty on success.
class ServerApi {
 public:
  virtual ~ServerApi() = default;

  // Calls no callback before it returns.
  virtual std::string start(const ServerFacts& facts) = 0;
  virtual void stop() = 0;
  // Instead of a regular end: leaves libpmix as it is until the process ends.
  virtual void abandon() = 0;
  [[nodiscard]] virtual bool runs() const = 0;
  // Whether its thread still does what it is asked for; waits at most `seconds`.
  [[nodiscard]] virtual bool answers(double seconds) = 0;

  virtual std::string add_job(const JobFacts& facts) = 0;
  virtual void remove_job(const std::string& nspace) = 0;
  // The variables with which a process finds the server.
  virtual std::string environment(const pmix_proc_t& proc,
                                  std::vector<std::pair<std::string, std::string>>& variables) = 0;
  // Sets how many processes of this node take part in collective operations of all processes of a namespace.
  virtual void count_again(const std::string& nspace, int processes) = 0;
  virtual std::string add_process(const pmix_proc_t& proc) = 0;
  // Forgets the process and its connection, and then notifies the service.
  virtual void forget(const pmix_proc_t& proc) = 0;
  // Notifies processes of this node that have registered; if `about` demands it, only those that have registered
  // for exactly this code.
  virtual void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, InfoList about) = 0;
  // Finds what a process of this node has committed, once it has. The service may never be notified. `question` is
  // passed on to the service.
  virtual void find_modex(const pmix_proc_t& proc, std::uintptr_t question) = 0;
  // Checks whether a process of this node has committed the key for other nodes to read, and notifies the service.
  virtual void look_up_key(const pmix_proc_t& proc, const std::string& key, std::uintptr_t question) = 0;
  // Answers with success, and the results, once libpmix has the resources.
  virtual void add_resources(InfoList resources, InfoReply reply, InfoList results) = 0;
  // Defines, or redefines, a set of processes by name, and notifies the processes of this node. Then libpmix also
  // has it for its own answers.
  virtual void define_set(const std::string& name, const std::vector<pmix_proc_t>& members) = 0;
  virtual void delete_set(const std::string& name) = 0;
};

class PmixServer final : public ServerApi {
 public:
  PmixServer() = default;
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  std::string start(const ServerFacts& facts) override;
  void stop() override;
  void abandon() override { runs_ = false; }
  [[nodiscard]] bool runs() const override { return runs_; }
  [[nodiscard]] bool answers(double seconds) override;

  std::string add_job(const JobFacts& facts) override;
  void remove_job(const std::string& nspace) override;
  std::string environment(const pmix_proc_t& proc,
                          std::vector<std::pair<std::string, std::string>>& variables) override;
  void count_again(const std::string& nspace, int processes) override;
  std::string add_process(const pmix_proc_t& proc) override;
  void forget(const pmix_proc_t& proc) override;
  void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, InfoList about) override;
  void find_modex(const pmix_proc_t& proc, std::uintptr_t question) override;
  void look_up_key(const pmix_proc_t& proc, const std::string& key, std::uintptr_t question) override;
  void add_resources(InfoList resources, InfoReply reply, InfoList results) override;
  void define_set(const std::string& name, const std::vector<pmix_proc_t>& members) override;
  void delete_set(const std::string& name) override;

 private:
  bool runs_ = false;
};

// Text such as "-25 (PMIX_ERR_UNREACH)".
std::string words_of(pmix_status_t status);

// How a job is laid out, as the shell's API has it: its shells, their hosts, and the tasks on each.
struct JobShells {
  std::uint32_t own = 0;           // this shell
  std::vector<std::string> hosts;  // by shell, all different
};

struct JobLayout {
  JobShells shells;
  JobFacts tasks;  // all but the directory
};

// The layout for this start of all tasks. None: after one line in the log.
std::optional<JobLayout> read_layout(flux_shell_t* shell, std::uint64_t start);

// What holds for the served job in all starts of its tasks. PMIx knows no second start of a rank, so all tasks
// start again together, in a new namespace; libpmix goes on.

bool is_fault_tolerant(flux_shell_t* shell);  // the option `fault-tolerance`
bool may_start_again(flux_shell_t* shell);    // the option `restart`; not with fault-tolerance

struct ServedJob {
  struct Next {
    std::uint64_t start = 0;
    JobFacts facts;
  };

  // Only then the end of a process has consequences.
  [[nodiscard]] bool goes_on() const { return !is_ending && !next; }

  bool tolerates_faults = false;
  bool may_restart = false;
  bool is_ending = false;         // or this shell leaves the job
  bool libpmix_may_hang = false;  // in its finalization
  std::optional<Next> next;       // all tasks are going to start again
  std::set<std::uint32_t> lost;   // shells, including those that have left
};

}  // namespace nacre::pmix
