// SPDX-License-Identifier: Apache-2.0
//
// The processes of this shell that may become clients, by namespace. The job's tasks are in the home namespace,
// which is a new one for each start of all tasks; spawned processes have a namespace of their own. All shells have
// all namespaces, even those without processes on the shell.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include "peer_message.hpp"
#include "server.hpp"

namespace nacre::pmix {

// The state of the processes that the service serves.

// A process that may become a client: a task of this shell, or one that a client has spawned.
struct PmixClient {
  enum class State {
    absent,     // has not called PMIx_Init, as far as is known
    connected,  // is between PMIx_Init and PMIx_Finalize
    finalized,
    aborted,  // has called PMIx_Abort
  };

  flux_shell_task_t* task = nullptr;  // nullptr: it was spawned
  pid_t pid = 0;                      // of a spawned process, while it runs
  std::string command;
  State state = State::absent;
  bool started = false;
  bool ended = false;
  bool lost = false;  // its connection is lost, but the server goes on
  int wait_status = 0;
};

struct Namespace {
  JobFacts facts;
  std::map<pmix_rank_t, PmixClient> clients;  // those on this node
  // For a spawned namespace:
  std::uint32_t task = 0;   // the rank of the task that their output is shown as
  std::size_t running = 0;  // on this node
  bool cancelled = false;   // not all could be started: the others are ended, which is no failure
};

class Clients {
 public:
  void set_shells(JobShells shells) { shells_ = std::move(shells); }
  [[nodiscard]] const JobShells& shells() const { return shells_; }

  // Begins a start of all tasks. The result stays where it is until clear().
  const Namespace& begin(JobFacts home);
  void add(Namespace spawned);
  void clear() { namespaces_.clear(); }

  [[nodiscard]] const std::string& home() const { return home_; }  // "": no start has begun here
  [[nodiscard]] std::uint32_t processes() const { return processes_; }
  [[nodiscard]] const std::map<std::string, Namespace>& namespaces() const { return namespaces_; }
  // nullptr: the namespace is not known.
  [[nodiscard]] const Namespace* find_namespace(const std::string& name) const;
  [[nodiscard]] Namespace* find_namespace(const std::string& name);
  [[nodiscard]] PmixClient* find(const pmix_proc_t& id);
  [[nodiscard]] const std::map<pmix_rank_t, PmixClient>& tasks() const;  // those of the home

  // Those of `procs` that have not ended; if none is named, all of the namespace of `id`.
  [[nodiscard]] std::vector<PmixClient*> targets_of(const pmix_proc_t& id, const std::vector<pmix_proc_t>& named);

  // The process's name in lines of the log.
  [[nodiscard]] std::string name_of(const pmix_proc_t& id, const PmixClient& client) const;
  // The tasks that are between PMIx_Init and PMIx_Finalize, as an idset.
  [[nodiscard]] std::string connected_tasks() const;
  [[nodiscard]] bool has_connected_spawned() const;  // whether a spawned process is connected
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

// Exit codes. The builtin plugins have the same rules; this plugin has only the C API.

// For a process that has ended: 128 + the signal, if a signal has ended it.
[[nodiscard]] inline int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// For a job that a program has aborted with its own number: a failure never becomes 0. 0 counts as 1; 1 to 255 as
// itself; anything else as its low 8 bits, or 255 if these are 0.
[[nodiscard]] constexpr int failure_code(int given) {
  if (given == 0) return 1;
  int low = given & 0xff;
  return low != 0 ? low : 255;
}

}  // namespace nacre::pmix
