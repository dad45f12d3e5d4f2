// SPDX-License-Identifier: Apache-2.0
//
// The processes of this shell that may become clients, by namespace. The job's tasks are in one, its home, which is
// another for each start of all tasks; those that a client spawns have one of their own. A namespace is here on all
// shells, also where none of its processes runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client.hpp"
#include "flux.hpp"
#include "job_layout.hpp"
#include "process_tables.hpp"
#include "server.hpp"

namespace nacre::pmix {

class Clients {
 public:
  void set_shells(JobShells shells) { shells_ = std::move(shells); }
  [[nodiscard]] const JobShells& shells() const { return shells_; }

  // Of a start of all tasks. What is returned stays where it is until clear().
  const Namespace& begin(JobFacts home);
  void add(Namespace spawned);
  void clear();

  [[nodiscard]] const std::string& home() const { return home_; }  // "": no start has begun here
  [[nodiscard]] std::uint32_t processes() const { return processes_; }
  [[nodiscard]] const std::map<std::string, Namespace>& namespaces() const { return namespaces_; }
  // nullptr: it is not known.
  [[nodiscard]] const Namespace* find_namespace(const std::string& name) const;
  [[nodiscard]] Namespace* find_namespace(const std::string& name);
  [[nodiscard]] PmixClient* find(const pmix_proc_t& id);
  [[nodiscard]] const std::map<pmix_rank_t, PmixClient>& tasks() const;  // those of the home

  // Those that are named and have not ended; none named: all of the namespace of `id`.
  [[nodiscard]] std::vector<PmixClient*> targets_of(const pmix_proc_t& id, const std::vector<pmix_proc_t>& named);

  // As lines of the log name a process.
  [[nodiscard]] std::string name_of(const pmix_proc_t& id, const PmixClient& client) const;
  // The tasks that are between PMIx_Init and PMIx_Finalize, as an idset.
  [[nodiscard]] std::string connected_tasks() const;
  [[nodiscard]] bool has_connected_spawned() const;  // a process that was spawned is
  // "connected", "finalized" or "aborted"; "" if it is no task of this shell, or has not called PMIx_Init.
  [[nodiscard]] const char* state_of_task(std::uint32_t rank) const;
  [[nodiscard]] std::vector<ProcessRow> rows_of(const std::string& nspace) const;

 private:
  JobShells shells_;
  std::string home_;
  std::map<std::string, Namespace> namespaces_;
  std::uint32_t processes_ = 0;  // in all namespaces of this start, on all shells
};

void signal_all(const std::vector<PmixClient*>& clients, int signum);  // those that run

}  // namespace nacre::pmix
