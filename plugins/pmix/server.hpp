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

// Functions that can fail return the reason, empty if all went well.
class Server {
 public:
  Server() = default;
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // `lost`, on libpmix's thread: the connection of a process is gone. No callback comes before this returns.
  std::string start(const ServerFacts& facts, pmix_server_module_t& module, pmix_notification_fn_t lost);
  void stop();
  // Instead: leaves libpmix to itself until the process ends.
  void abandon() { runs_ = false; }
  [[nodiscard]] bool runs() const { return runs_; }

  static std::string add_job(const JobFacts& facts);
  static void remove_job(const std::string& nspace);
  // What a process needs in its environment to find the server.
  static std::string environment(const pmix_proc_t& proc,
                                 std::vector<std::pair<std::string, std::string>>& variables);
  // How many processes of this node collective operations of all of a namespace wait for.
  static void count_again(const std::string& nspace, int processes);
  static std::string add_process(const pmix_proc_t& proc);
  // The process and its connection. The service is told when it is done.
  static void forget(const pmix_proc_t& proc);
  // To the processes of this node that have asked for it, by this very code if `about` says so.
  static void notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, InfoList about);
  // What a process of this node has committed, once it has. The service is told, perhaps never; `question` is passed on.
  static void find_modex(const pmix_proc_t& proc, std::uintptr_t question);

 private:
  bool runs_ = false;
};

// "-25 (PMIX_ERR_UNREACH)"-like text.
std::string words_of(pmix_status_t status);

}  // namespace nacre::pmix
