// SPDX-License-Identifier: Apache-2.0
#include "job_layout.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <jansson.h>

#include "layout.hpp"
#include "spawns.hpp"

namespace nacre::pmix {
namespace {

std::string this_host() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// The job's hosts by node, this one where R has no names. Two nodes may be on one host. The list has no host that
// has joined since it was first read.
std::vector<std::string> hosts_of(flux_shell_t* shell, int nodes) {
  const hostlist* list = flux_shell_get_hostlist(shell);
  std::vector<std::string> hosts;
  for (int node = 0; node < nodes; ++node) {
    const char* host = list != nullptr ? hostlist_nth(const_cast<hostlist*>(list), node) : nullptr;
    if (host == nullptr) flux_shell_rank_info_unpack(shell, node, "{s:s}", "name", &host);
    hosts.emplace_back(host != nullptr && *host != '\0' ? host : this_host());
  }
  return hosts;
}

// Of the first start of all tasks; empty: it cannot be had.
std::string namespace_of(flux_shell_t* shell) {
  Arguments args(flux_plugin_arg_create());
  const char* name = nullptr;
  if (flux_shell_plugstack_call(shell, "pmi.namespace", args.get()) < 0 ||
      flux_plugin_arg_unpack(args.get(), FLUX_PLUGIN_ARG_OUT, "{s:s}", "namespace", &name) < 0)
    return {};
  return name;
}

std::vector<pmix_rank_t> ranks_of(const taskmap* map, int node) {
  std::vector<pmix_rank_t> ranks;
  const idset* ids = taskmap_taskids(map, node);
  for (unsigned id = idset_first(ids); id != IDSET_INVALID_ID; id = idset_next(ids, id)) ranks.push_back(id);
  return ranks;
}

}  // namespace

std::optional<JobLayout> read_layout(flux_shell_t* shell, std::uint64_t start) {
  json_int_t id = 0;
  int rank = 0, size = 0, ntasks = 0, slots = 0, version = 0;
  if (flux_shell_info_unpack(shell, "{s:I s:i s:i s:i}", "jobid", &id, "rank", &rank, "size", &size, "ntasks",
                             &ntasks) < 0 ||
      flux_shell_jobspec_info_unpack(shell, "{s:i s:i}", "version", &version, "nslots", &slots) < 0) {
    shell_log_errno("cannot find how the job is laid out");
    return std::nullopt;
  }
  JobLayout layout;
  JobShells& shells = layout.shells;
  JobFacts& facts = layout.tasks;
  const taskmap* map = flux_shell_get_taskmap(shell);
  facts.job_id = std::to_string(id);
  facts.nspace = namespace_of(shell);
  if (facts.nspace.empty()) {
    shell_log_error(
        "there is no namespace for the tasks: the builtin plugin pmi has to be there, and libcrypto.so.3");
    return std::nullopt;
  }
  if (start > 1) facts.nspace += "." + std::to_string(start);
  shells.own = static_cast<std::uint32_t>(rank);
  std::vector<std::string> hosts = hosts_of(shell, size);
  shells.hosts = distinct(std::move(hosts));
  facts.this_node = JobFacts::kNowhere;
  for (int node = 0; node < taskmap_nnodes(map); ++node) {
    std::vector<pmix_rank_t> ranks = ranks_of(map, node);
    if (ranks.empty()) continue;
    if (node == rank) facts.this_node = static_cast<std::uint32_t>(facts.nodes.size());
    facts.nodes.push_back(
        {shells.hosts.at(static_cast<std::size_t>(node)), std::move(ranks), static_cast<std::uint32_t>(node)});
  }
  facts.app_sizes = {static_cast<std::uint32_t>(ntasks)};
  facts.slots = static_cast<std::uint32_t>(slots);
  facts.universe = std::max(facts.slots, ask_spawning(shell, "universe_size"));
  return layout;
}

}  // namespace nacre::pmix
