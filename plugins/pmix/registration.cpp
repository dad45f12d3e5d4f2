// SPDX-License-Identifier: Apache-2.0
//
// What clients find by PMIx_Get about their job, their node and each other.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "server.hpp"

namespace nacre::pmix {
namespace {

template <typename Ranks>
std::string joined(const Ranks& ranks) {
  std::string text;
  for (pmix_rank_t rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

std::string host_list(const JobFacts& facts) {
  std::string text;
  for (const JobFacts::Node& node : facts.nodes) text += (text.empty() ? "" : ",") + node.host;
  return text;
}

// libpmix's compressed form of a list, as an info.
pmix_status_t add_map(InfoList& info, const char* key, pmix_status_t (*compress)(const char*, char**),
                      const std::string& list) {
  char* map = nullptr;
  pmix_status_t status = compress(list.c_str(), &map);
  if (status == PMIX_SUCCESS) info.add(key, map, PMIX_REGEX);
  std::free(map);
  return status;
}

pmix_status_t add_maps(InfoList& info, const JobFacts& facts) {
  std::string ranks;
  for (const JobFacts::Node& node : facts.nodes) ranks += (ranks.empty() ? "" : ";") + joined(node.ranks);
  pmix_status_t status = add_map(info, PMIX_NODE_MAP, PMIx_generate_regex, host_list(facts));
  return status == PMIX_SUCCESS ? add_map(info, PMIX_PROC_MAP, PMIx_generate_ppn, ranks) : status;
}

void add_sizes(InfoList& info, const JobFacts& facts) {
  auto local = static_cast<std::uint32_t>(facts.here().ranks.size());
  info.number(PMIX_UNIV_SIZE, std::max(facts.universe, facts.size())).number(PMIX_JOB_SIZE, facts.size());
  info.number(PMIX_MAX_PROCS, std::max(facts.slots, facts.size())).number(PMIX_NUM_SLOTS, facts.slots);
  info.number(PMIX_JOB_NUM_APPS, static_cast<std::uint32_t>(facts.app_sizes.size()));
  info.number(PMIX_NUM_NODES, static_cast<std::uint32_t>(facts.nodes.size()));
  info.number(PMIX_LOCAL_SIZE, local).number(PMIX_NODE_SIZE, local + facts.global_offset);
}

void add_node(InfoList& info, const JobFacts& facts, std::uint32_t id) {
  const JobFacts::Node& node = facts.nodes[id];
  auto size = static_cast<std::uint32_t>(node.ranks.size());
  InfoList members;
  members.number(PMIX_NODEID, id).string(PMIX_HOSTNAME, node.host).string(PMIX_LOCAL_PEERS, joined(node.ranks));
  members.number(PMIX_LOCAL_SIZE, size).number(PMIX_NODE_SIZE, size);
  if (!node.ranks.empty()) members.rank(PMIX_LOCALLDR, node.ranks.front());
  info.array(PMIX_NODE_INFO_ARRAY, std::move(members));
}

void add_apps(InfoList& info, const JobFacts& facts) {
  pmix_rank_t leader = 0;
  for (std::uint32_t app = 0; app < facts.app_sizes.size(); ++app) {
    InfoList members;
    members.number(PMIX_APPNUM, app).number(PMIX_APP_SIZE, facts.app_sizes[app]).rank(PMIX_APPLDR, leader);
    info.array(PMIX_APP_INFO_ARRAY, std::move(members));
    leader += facts.app_sizes[app];
  }
}

void add_process(InfoList& info, const JobFacts& facts, std::uint32_t node, std::uint16_t local_rank) {
  pmix_rank_t rank = facts.nodes[node].ranks[local_rank];
  std::uint32_t app = 0;
  pmix_rank_t leader = 0;
  while (app + 1 < facts.app_sizes.size() && rank >= leader + facts.app_sizes[app])
    leader += facts.app_sizes[app++];
  InfoList members;
  members.rank(PMIX_RANK, rank);  // has to be the first
  members.number(PMIX_APPNUM, app).rank(PMIX_APP_RANK, rank - leader).rank(PMIX_APPLDR, leader);
  members.rank(PMIX_GLOBAL_RANK, facts.global_offset + rank).number16(PMIX_LOCAL_RANK, local_rank);
  members.number16(PMIX_NODE_RANK, static_cast<std::uint16_t>(local_rank + facts.global_offset));
  members.number(PMIX_NODEID, node).string(PMIX_HOSTNAME, facts.nodes[node].host).number(PMIX_REINCARNATION, 0);
  if (node == facts.this_node) {
    members.string(PMIX_PROCDIR, facts.directory + "/" + facts.nspace + "/" + std::to_string(rank));
  }
  info.array(PMIX_PROC_DATA, std::move(members));
}

pmix_status_t describe(InfoList& info, const JobFacts& facts) {
  info.string(PMIX_JOBID, facts.job_id).string(PMIX_NSPACE, facts.nspace).number(PMIX_SESSION_ID, 0);
  add_sizes(info, facts);
  info.string(PMIX_NODE_LIST, host_list(facts));
  if (facts.this_node != JobFacts::kNowhere) info.number(PMIX_NODEID, facts.this_node);
  if (const auto& ranks = facts.here().ranks; !ranks.empty())
    info.string(PMIX_LOCAL_PEERS, joined(ranks)).rank(PMIX_LOCALLDR, ranks.front());
  info.string(PMIX_TMPDIR, facts.directory).string(PMIX_NSDIR, facts.directory + "/" + facts.nspace);
  info.flag(PMIX_TDIR_RMCLEAN, true).rank(PMIX_NPROC_OFFSET, facts.global_offset);
  info.flag(PMIX_SPAWNED, facts.parent.has_value());
  if (facts.parent) info.proc(PMIX_PARENT_ID, *facts.parent);
  if (pmix_status_t status = add_maps(info, facts); status != PMIX_SUCCESS) return status;
  add_apps(info, facts);
  for (std::uint32_t node = 0; node < facts.nodes.size(); ++node) {
    add_node(info, facts, node);
    for (std::size_t i = 0; i < facts.nodes[node].ranks.size(); ++i) {
      add_process(info, facts, node, static_cast<std::uint16_t>(i));
    }
  }
  return PMIX_SUCCESS;
}

}  // namespace

std::uint32_t JobFacts::size() const { return std::accumulate(app_sizes.begin(), app_sizes.end(), 0U); }

const JobFacts::Node& JobFacts::here() const {
  static const Node none;
  return this_node < nodes.size() ? nodes[this_node] : none;
}

std::string PmixServer::add_job(const JobFacts& facts) {
  std::string directory = facts.directory + "/" + facts.nspace;
  if (::mkdir(directory.c_str(), 0700) < 0) return directory + ": " + std::strerror(errno);
  InfoList info;
  pmix_status_t status = describe(info, facts);
  auto local = static_cast<int>(facts.here().ranks.size());
  if (status == PMIX_SUCCESS) {
    status = PMIx_server_register_nspace(facts.nspace.c_str(), local, info.data(), info.size(), nullptr, nullptr);
  }
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) return words_of(status);
  for (pmix_rank_t rank : facts.here().ranks) {
    directory = facts.directory + "/" + facts.nspace + "/" + std::to_string(rank);
    if (::mkdir(directory.c_str(), 0700) < 0) return directory + ": " + std::strerror(errno);
    if (std::string why = add_process(proc_of(facts.nspace, rank)); !why.empty()) return why;
  }
  return {};
}

}  // namespace nacre::pmix
