// SPDX-License-Identifier: Apache-2.0
//
// PMIx_Query_info: what libpmix cannot answer itself.
#include <sys/wait.h>

#include <algorithm>
#include <ctime>

#include "service.hpp"

namespace nacre::pmix {
namespace {

constexpr const char* kKeys =
    PMIX_QUERY_SUPPORTED_KEYS "," PMIX_QUERY_NAMESPACES "," PMIX_QUERY_NAMESPACE_INFO "," PMIX_QUERY_JOB_STATUS
                              "," PMIX_QUERY_PROC_TABLE "," PMIX_QUERY_LOCAL_PROC_TABLE "," PMIX_QUERY_SPAWN_SUPPORT
                              "," PMIX_QUERY_DEBUG_SUPPORT "," PMIX_JOB_SIZE "," PMIX_TIME_REMAINING;

pmix_proc_state_t state_of(const PmixClient& client) {
  if (!client.ended) {
    if (client.state == PmixClient::State::connected) return PMIX_PROC_STATE_CONNECTED;
    return client.started ? PMIX_PROC_STATE_RUNNING : PMIX_PROC_STATE_PREPPED;
  }
  if (client.state == PmixClient::State::aborted) return PMIX_PROC_STATE_CALLED_ABORT;
  if (WIFSIGNALED(client.wait_status)) return PMIX_PROC_STATE_ABORTED_BY_SIG;
  if (client.state == PmixClient::State::connected) return PMIX_PROC_STATE_TERM_WO_SYNC;
  return WEXITSTATUS(client.wait_status) == 0 ? PMIX_PROC_STATE_TERMINATED : PMIX_PROC_STATE_TERM_NON_ZERO;
}

int exit_code_of(const PmixClient& client) {
  if (!client.ended) return 0;
  return WIFSIGNALED(client.wait_status) ? 128 + WTERMSIG(client.wait_status) : WEXITSTATUS(client.wait_status);
}

bool add_time_remaining(flux_shell_t* shell, InfoList& results) {
  double expiration = 0;
  if (flux_shell_info_unpack(shell, "{s:{s:{s?F}}}", "R", "execution", "expiration", &expiration) < 0) return false;
  if (expiration <= 0) return false;
  double left = expiration - static_cast<double>(std::time(nullptr));
  results.number(PMIX_TIME_REMAINING, static_cast<std::uint32_t>(std::max(left, 0.0)));
  return true;
}

}  // namespace

void Service::query(const std::vector<Query>& queries, InfoReply reply) {
  InfoList results;
  std::size_t asked = 0, answered = 0;
  for (const Query& each : queries) {
    for (const std::string& key : each.keys) {
      ++asked;
      if (query_key(key, each.qualifiers, results)) ++answered;
    }
  }
  pmix_status_t status = PMIX_SUCCESS;
  if (answered < asked) status = answered > 0 ? PMIX_ERR_PARTIAL_SUCCESS : PMIX_ERR_NOT_SUPPORTED;
  answer(reply, status, std::move(results));
}

// Answers for the namespace that a qualifier names, else for the job's tasks.
bool Service::query_key(const std::string& key, const InfoList& qualifiers, InfoList& results) {
  std::string nspace = home_;
  if (const pmix_value_t* named = qualifiers.find(PMIX_NSPACE)) nspace = text_of(*named).value_or(home_);
  auto space = namespaces_.find(nspace);
  if (key == PMIX_QUERY_SUPPORTED_KEYS) {
    results.string(PMIX_QUERY_SUPPORTED_KEYS, kKeys);
  } else if (key == PMIX_QUERY_NAMESPACES) {
    std::string names;
    for (const auto& [name, each] : namespaces_) names += (names.empty() ? "" : ",") + name;
    results.string(PMIX_QUERY_NAMESPACES, names);
  } else if (key == PMIX_QUERY_NAMESPACE_INFO) {
    InfoList all;
    for (const auto& [name, each] : namespaces_) {
      all.array(PMIX_JOB_INFO_ARRAY,
                std::move(InfoList().string(PMIX_NSPACE, name).number(PMIX_JOB_SIZE, each.facts.size())));
    }
    results.array(PMIX_QUERY_NAMESPACE_INFO, std::move(all));
  } else if (key == PMIX_QUERY_SPAWN_SUPPORT) {
    results.string(PMIX_QUERY_SPAWN_SUPPORT, PMIX_WDIR);
  } else if (key == PMIX_QUERY_DEBUG_SUPPORT) {
    results.string(PMIX_QUERY_DEBUG_SUPPORT, "");
  } else if (key == PMIX_TIME_REMAINING) {
    return add_time_remaining(shell_, results);
  } else if (space == namespaces_.end()) {
    return false;
  } else if (key == PMIX_JOB_SIZE) {
    results.number(PMIX_JOB_SIZE, space->second.facts.size());
  } else if (key == PMIX_QUERY_JOB_STATUS) {
    pmix_status_t running = PMIX_SUCCESS;
    results.add(PMIX_QUERY_JOB_STATUS, &running, PMIX_STATUS);
  } else if (key == PMIX_QUERY_PROC_TABLE && peers_->several()) {
    shell_log_error("PMIx_Query_info: %s: a node of several knows its own processes only", PMIX_QUERY_PROC_TABLE);
    return false;
  } else if (key == PMIX_QUERY_PROC_TABLE || key == PMIX_QUERY_LOCAL_PROC_TABLE) {
    add_process_table(results, key.c_str(), nspace);
  } else {
    return false;
  }
  return true;
}

void Service::add_process_table(InfoList& results, const char* key, const std::string& nspace) {
  Namespace& space = namespaces_[nspace];
  std::vector<pmix_proc_info_t> rows;
  for (auto& [rank, client] : space.clients) {
    pmix_proc_info_t& row = rows.emplace_back();
    row.proc = proc_of(nspace, rank);
    row.hostname = hosts_.at(own_).data();
    row.executable_name = client.command.data();
    row.pid = pid_of(client);
    row.exit_code = exit_code_of(client);
    row.state = state_of(client);
  }
  pmix_data_array_t array{PMIX_PROC_INFO, rows.size(), rows.data()};
  results.add(key, &array, PMIX_DATA_ARRAY);
}

}  // namespace nacre::pmix
