// SPDX-License-Identifier: Apache-2.0
//
// PMIx_Spawn. The builtin plugin pmi places the processes on the shells of the job and starts them, like those that
// PMI-1 and PMI-2 spawn. This plugin serves them, in a namespace of their own that all shells know. The two plugins
// exchange topics, see plugins/pmi/spawns.hpp.
#pragma once

#include <jansson.h>

#include "process_ends.hpp"

namespace nacre::pmix {

struct SpawnApp {
  std::vector<std::string> argv, env;
  std::string directory;
  int count = 1;
  std::string hosts = {};  // where to run, separated by commas
};

class Spawns {
 public:
  Spawns(flux_shell_t* shell, ServerApi& server, Clients& clients, ServedJob& job, ProcessEnds& ends)
      : shell_(shell), server_(server), clients_(clients), job_(job), ends_(ends) {}

  // A start of all tasks, from begin() to end(). By the end all clients with unanswered requests have ended.
  void begin(Peers& peers) { peers_ = &peers; }
  void end();
  void stop() { replies_.clear(); }  // libpmix gets no answer any more

  [[nodiscard]] bool empty() const { return namespaces_.empty(); }  // nothing was spawned in this start
  // Processes spawned since it was decided that all tasks start again belong to the start that ends.
  void cancel(int signum);

  // A request of a client.
  void spawn(const pmix_proc_t& id, const InfoList& job, const std::vector<SpawnApp>& apps,
             pmix_spawn_cbfunc_t function, void* data);

  // Topics.
  int begins(flux_plugin_arg_t* args);  // 0, or -1
  void started(flux_plugin_arg_t* args);
  void exited(flux_plugin_arg_t* args);
  void settled(flux_plugin_arg_t* args);

 private:
  using Number = std::pair<std::uint64_t, std::uint64_t>;  // which start of all tasks, and which spawn of it
  struct Reply {
    pmix_proc_t id;
    pmix_spawn_cbfunc_t function;
    void* data;
  };

  static Number number_of(json_t* spawn);
  void answer(std::uint64_t request, const std::string& nspace, int error, const char* why);
  [[nodiscard]] Namespace namespace_of(json_t* spawn) const;
  std::string add(Namespace space, json_t* environments);  // returns why not
  Namespace* find(json_t* spawn);                          // nullptr: the spawn is not known

  flux_shell_t* shell_;
  ServerApi& server_;
  Clients& clients_;
  ServedJob& job_;
  ProcessEnds& ends_;
  Peers* peers_ = nullptr;                    // of the start that has begun
  std::map<Number, std::string> namespaces_;  // of this start
  std::map<std::uint64_t, Reply> replies_;    // by this shell's number of the request
  std::uint64_t requests_ = 0;                // in all starts
};

struct FreeArguments {
  void operator()(flux_plugin_arg_t* args) const { flux_plugin_arg_destroy(args); }
};
using Arguments = std::unique_ptr<flux_plugin_arg_t, FreeArguments>;

// Asks the builtin plugin pmi, by the topic pmi.spawning. 0: it does not tell, or false.
std::uint32_t ask_spawning(flux_shell_t* shell, const char* what);

}  // namespace nacre::pmix
