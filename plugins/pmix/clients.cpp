// SPDX-License-Identifier: Apache-2.0
#include "clients.hpp"

#include <sys/wait.h>

#include <jansson.h>

namespace nacre::pmix {
namespace {

pid_t pid_of(const PmixClient& client) {
  json_int_t pid = 0;
  if (client.task != nullptr && flux_shell_task_info_unpack(client.task, "{s:I}", "pid", &pid) == 0) {
    return static_cast<pid_t>(pid);
  }
  return client.pid;
}

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

int exit_code_of(const PmixClient& client) { return client.ended ? pmix::exit_code_of(client.wait_status) : 0; }

bool is_connected(const PmixClient& client) {
  return !client.ended && client.state == PmixClient::State::connected;
}

}  // namespace

const Namespace& Clients::begin(JobFacts facts) {
  home_ = facts.nspace;
  processes_ = facts.size();
  Namespace& home = namespaces_[home_];
  for (pmix_rank_t each : facts.here().ranks) home.clients[each];
  home.facts = std::move(facts);
  return home;
}

void Clients::add(Namespace spawned) {
  processes_ += spawned.facts.size();
  const std::string name = spawned.facts.nspace;
  namespaces_[name] = std::move(spawned);
}

const Namespace* Clients::find_namespace(const std::string& name) const {
  auto found = namespaces_.find(name);
  return found != namespaces_.end() ? &found->second : nullptr;
}

Namespace* Clients::find_namespace(const std::string& name) {
  auto found = namespaces_.find(name);
  return found != namespaces_.end() ? &found->second : nullptr;
}

PmixClient* Clients::find(const pmix_proc_t& id) {
  Namespace* space = find_namespace(id.nspace);
  if (space == nullptr) return nullptr;
  auto client = space->clients.find(id.rank);
  return client != space->clients.end() ? &client->second : nullptr;
}

const std::map<pmix_rank_t, PmixClient>& Clients::tasks() const {
  static const std::map<pmix_rank_t, PmixClient> none;
  const Namespace* home = find_namespace(home_);
  return home != nullptr ? home->clients : none;
}

std::vector<PmixClient*> Clients::targets_of(const pmix_proc_t& id, const std::vector<pmix_proc_t>& named) {
  std::vector<PmixClient*> clients;
  std::vector<pmix_proc_t> wanted = named;
  if (wanted.empty()) wanted.push_back(proc_of(id.nspace, PMIX_RANK_WILDCARD));
  for (const pmix_proc_t& target : wanted) {
    Namespace* space = find_namespace(target.nspace);
    if (space == nullptr) continue;
    for (auto& [rank, client] : space->clients) {
      bool is_named = target.rank == PMIX_RANK_WILDCARD || target.rank == rank;
      bool is_known = std::find(clients.begin(), clients.end(), &client) != clients.end();
      if (is_named && !is_known && !client.ended) clients.push_back(&client);
    }
  }
  return clients;
}

std::string Clients::name_of(const pmix_proc_t& id, const PmixClient& client) const {
  std::string text = "rank " + std::to_string(id.rank);
  if (id.nspace != home_) text += " of " + std::string(id.nspace);
  if (pid_t pid = pid_of(client); pid > 0) text += " (process " + std::to_string(pid) + ")";
  return text + " on " + shells_.hosts.at(shells_.own);
}

std::string Clients::connected_tasks() const {
  std::string out;
  for (const auto& [rank, client] : tasks()) {
    if (is_connected(client)) out += (out.empty() ? "" : ",") + std::to_string(rank);
  }
  return out;
}

bool Clients::has_connected_spawned() const {
  return std::any_of(namespaces_.begin(), namespaces_.end(), [this](const auto& space) {
    const auto& clients = space.second.clients;
    return space.first != home_ &&
           std::any_of(clients.begin(), clients.end(), [](const auto& each) { return is_connected(each.second); });
  });
}

const char* Clients::state_of_task(std::uint32_t rank) const {
  auto client = tasks().find(rank);
  if (client == tasks().end()) return "";
  switch (client->second.state) {
    case PmixClient::State::connected: return "connected";
    case PmixClient::State::finalized: return "finalized";
    case PmixClient::State::aborted: return "aborted";
    case PmixClient::State::absent: break;
  }
  return "";
}

std::vector<ProcessRow> Clients::rows_of(const std::string& nspace) const {
  std::vector<ProcessRow> rows;
  const Namespace* space = find_namespace(nspace);
  if (space == nullptr) return rows;
  for (const auto& [rank, client] : space->clients)
    rows.push_back({rank, pid_of(client), state_of(client), exit_code_of(client), client.command});
  return rows;
}

void signal_all(const std::vector<PmixClient*>& clients, int signum) {
  for (PmixClient* client : clients) {
    if (client->pid > 0) ::kill(client->pid, signum);
    flux_subprocess_t* process = client->task != nullptr ? flux_shell_task_subprocess(client->task) : nullptr;
    if (process != nullptr) flux_future_destroy(flux_subprocess_kill(process, signum));
  }
}

}  // namespace nacre::pmix
