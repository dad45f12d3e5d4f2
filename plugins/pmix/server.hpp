// SPDX-License-Identifier: Apache-2.0
//
// libpmix as a server. A process can have one; it has a thread of its own.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flux.hpp"
#include "info.hpp"

namespace nacre::pmix {

struct ServerFacts {
  std::string nspace;     // the server's own
  pmix_rank_t rank = 0;   // of the shell
  std::string directory;  // for its files; there already
  std::string host;
  // Clients can die at any moment: none may hold a lock that the server or another client needs. Costs time and memory.
  bool lockless = false;
};

// What the processes of a namespace are told about it, and what libpmix needs to know. Ranks are those of the namespace
// and, in it, in the order of its apps.
struct JobFacts {
  struct Node {
    std::string host;
    std::vector<pmix_rank_t> ranks;  // ascending
  };

  [[nodiscard]] std::uint32_t size() const;
  [[nodiscard]] const Node& here() const { return nodes[this_node]; }

  std::string nspace;
  std::string job_id;
  std::string directory;  // the job's, on this node
  std::vector<Node> nodes;
  std::uint32_t this_node = 0;
  std::vector<std::uint32_t> app_sizes;
  std::uint32_t slots = 0;            // of the whole job
  std::uint32_t global_offset = 0;    // how many processes of other namespaces of the job came before
  std::optional<pmix_proc_t> parent;  // who has spawned it
};

// What the service asks of libpmix: PmixServer is it, tests have another. Functions that can fail return the reason, empty
// if all went well.
class Server {
 public:
  virtual ~Server() = default;

  // No callback comes before this returns.
  virtual std::string start(const ServerFacts& facts) = 0;
  virtual void stop() = 0;
  // Instead: leaves libpmix to itself until the process ends.
  virtual void abandon() = 0;
  [[nodiscard]] virtual bool runs() const = 0;

  virtual std::string add_job(const JobFacts& facts) = 0;
  virtual void remove_job(const std::string& nspace) = 0;
  // What a process needs in its environment to find the server.
  virtual std::string environment(const pmix_proc_t& proc,
                                  std::vector<std::pair<std::string, std::string>>& variables) = 0;
  // How many processes of this node collective operations of all of a namespace wait for.
  virtual void count_again(const std::string& nspace, int processes) = 0;
  virtual std::string add_process(const pmix_proc_t& proc) = 0;
  // The process and its connection. The service is told when it is done.
  virtual void forget(const pmix_proc_t& proc) = 0;
  // To the processes of this node that have asked for it, by this very code if `about` says so.
  virtual void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, InfoList about) = 0;
  // What a process of this node has committed, once it has. The service is told, perhaps never; `question` is passed on.
  virtual void find_modex(const pmix_proc_t& proc, std::uintptr_t question) = 0;
};

class PmixServer final : public Server {
 public:
  PmixServer() = default;
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  std::string start(const ServerFacts& facts) override;
  void stop() override;
  void abandon() override { runs_ = false; }
  [[nodiscard]] bool runs() const override { return runs_; }

  std::string add_job(const JobFacts& facts) override;
  void remove_job(const std::string& nspace) override;
  std::string environment(const pmix_proc_t& proc,
                          std::vector<std::pair<std::string, std::string>>& variables) override;
  void count_again(const std::string& nspace, int processes) override;
  std::string add_process(const pmix_proc_t& proc) override;
  void forget(const pmix_proc_t& proc) override;
  void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, InfoList about) override;
  void find_modex(const pmix_proc_t& proc, std::uintptr_t question) override;

 private:
  bool runs_ = false;
};

// "-25 (PMIX_ERR_UNREACH)"-like text.
std::string words_of(pmix_status_t status);

}  // namespace nacre::pmix
