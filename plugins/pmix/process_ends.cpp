// SPDX-License-Identifier: Apache-2.0
//
// How a process ends, and what follows for the others.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include <jansson.h>

#include "exit_code.hpp"
#include "service.hpp"

namespace nacre::pmix {
namespace {

bool take_from(std::vector<pmix_proc_t>& list, const pmix_proc_t& proc) {
  return std::erase_if(list, [&](const pmix_proc_t& each) {
           return each.rank == proc.rank && std::strcmp(each.nspace, proc.nspace) == 0;
         }) > 0;
}

std::string how_it_ended(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return "exited with code " + std::to_string(WEXITSTATUS(wait_status));
  int signum = WTERMSIG(wait_status);
  return "was killed by signal " + std::to_string(signum) + " (" + ::strsignal(signum) + ")";
}

const char* when_it_ended(PmixClient::State state) {
  switch (state) {
    case PmixClient::State::absent: return "before PMIx_Init";
    case PmixClient::State::connected: return "after PMIx_Init, without PMIx_Finalize";
    case PmixClient::State::finalized: return "after PMIx_Finalize";
    default: return "after PMIx_Abort";
  }
}

// A process of a job need not be a client: one that exits without calling PMIx_Init harms no other.
bool is_failure(const PmixClient& client) {
  return WIFSIGNALED(client.wait_status) || client.state == PmixClient::State::connected;
}

// The code of a process that left without PMIx_Finalize may be 0, which cannot be the code of a job that it has
// ended.
int status_of_failure(const PmixClient& client) {
  return client.wait_status != 0 ? client.wait_status : W_EXITCODE(1, 0);
}

// What a client has said as it aborted, behind the line that tells it.
std::string note_of(const std::string& message) {
  return message.empty() || message == "N/A" ? "" : ": " + message;
}

}  // namespace

int Service::task_ended(flux_shell_task_t* task) {
  int rank = 0, wait_status = 0, again = 0;
  if (flux_shell_task_info_unpack(task, "{s:i s:i s?b}", "rank", &rank, "wait_status", &wait_status, "starts_again",
                                  &again) < 0) {
    return shell_log_errno("cannot find how a task ended");
  }
  pmix_proc_t id = proc_of(clients_.home(), static_cast<pmix_rank_t>(rank));
  if (PmixClient* client = clients_.find(id))
    again != 0 ? starts_again(id, *client, wait_status) : ended(id, *client, wait_status);
  return 0;
}

void Service::ended(const pmix_proc_t& id, PmixClient& client, int wait_status) {
  if (inbox_) inbox_->read();  // handles what it sent before it ended
  client.ended = true;
  client.wait_status = wait_status;
  peers_->ended(id, fault_tolerant_);
  // The server's finalization may then wait for ever: libpmix 4.2.2 frees what it has of a rank whose process dies
  // while it connects, and goes on using it; and a lock in shared memory stays locked if its owner dies.
  if (is_failure(client)) spoilt_ = true;
  std::string how = how_it_ended(wait_status) + " " + when_it_ended(client.state);
  if (ending_ || again_.next || clients_.find_namespace(id.nspace)->cancelled) return;
  if (auto abort = again_.aborts.find(id.rank); id.nspace == clients_.home() && abort != again_.aborts.end())
    return raise_abort(id, client, abort->second);
  if (!fault_tolerant_) {
    if (is_failure(client) && client.state != PmixClient::State::aborted) end_job(id, client, how);
    return;
  }
  if (is_failure(client)) {
    shell_log("%s %s; the others go on", clients_.name_of(id, client).c_str(), how.c_str());
    notify_others(id, client.wait_status, true);
  }
  if (client.state == PmixClient::State::absent) stand_in_later(id);
}

void Service::end_job(const pmix_proc_t& id, const PmixClient& client, const std::string& how) {
  ending_ = true;
  flux_shell_raise_exit_status(status_of_failure(client), "%s %s; -o fault-tolerance lets the others go on",
                               clients_.name_of(id, client).c_str(), how.c_str());
}

void Service::aborted(const pmix_proc_t& id, int status, const std::string& message,
                      const std::vector<pmix_proc_t>& ids, OperationReply reply) {
  PmixClient* client = clients_.find(id);
  if (client == nullptr) return reply(PMIX_ERR_NOT_FOUND);
  client->state = PmixClient::State::aborted;
  if (again_.is_on && client->task != nullptr) {
    abort_later(id, {status, message});
    return reply(PMIX_SUCCESS);
  }
  std::vector<PmixClient*> victims = clients_.targets_of(id, ids);
  std::vector<Rank> far_victims = elsewhere(id, ids);
  std::size_t others = elsewhere(id, {}).size();
  for (const auto& [rank, each] : clients_.find_namespace(id.nspace)->clients)
    others += &each != client && !each.ended ? 1 : 0;
  std::string name = clients_.name_of(id, *client);
  std::erase(victims, client);
  std::size_t named = victims.size() + far_victims.size();
  if (fault_tolerant_ && named < others) {
    shell_log("%s called PMIx_Abort for %zu others with code %d%s", name.c_str(), named, status,
              note_of(message).c_str());
    signal_all(victims, SIGKILL);
    if (!far_victims.empty()) peers_->signal(far_victims, SIGKILL);
    return reply(PMIX_SUCCESS);
  }
  raise_abort(id, *client, {status, message});
  reply(PMIX_SUCCESS);
}

void Service::raise_abort(const pmix_proc_t& id, const PmixClient& client, const RestartState::Abort& abort) {
  ending_ = true;
  // Of a process that a task has spawned no task is the cause.
  int rank = client.task != nullptr ? static_cast<int>(id.rank) : -1;
  nacre_shell_raise_task_status(rank, W_EXITCODE(failure_code(abort.status), 0),
                                "%s called PMIx_Abort with code %d%s", clients_.name_of(id, client).c_str(),
                                abort.status, note_of(abort.message).c_str());
}

// Clients register for different codes: the standard's code for the case, the code for any end, and the one that
// Open MPI 5 waits for.
void Service::notify_others(const pmix_proc_t& id, int wait_status, bool on_all_nodes) {
  std::vector<pmix_status_t> codes{PMIX_EVENT_PROC_TERMINATED, PMIX_ERR_PROC_TERM_WO_SYNC};
  if (WIFSIGNALED(wait_status)) codes.insert(codes.end(), {PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED});
  for (pmix_status_t code : codes) {
    InfoList about;
    about.proc(PMIX_EVENT_AFFECTED_PROC, id);
    about.integer(PMIX_EXIT_CODE,
                  WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    about.flag(PMIX_EVENT_NON_DEFAULT, true);
    if (on_all_nodes) peers_->notify(code, id, PMIX_RANGE_SESSION, about);
    server_->notify(code, id, PMIX_RANGE_SESSION, std::move(about));
  }
}

// All shells are notified. If the loss of a node is tolerated, its processes count as killed.
void Service::shell_lost(std::uint32_t shell) {
  again_.lost.insert(shell);
  if (!peers_) return;
  const std::vector<pmix_proc_t> gone = peers_->left_on(shell);
  peers_->lost(shell);
  if (!fault_tolerant_ || !server_->runs()) return;
  for (const pmix_proc_t& id : gone) notify_others(id, W_EXITCODE(0, SIGKILL), false);
}

// A process that ended before it had a connection is still a member of each collective operation of its namespace.
// If it has no connection after a while, its registration is dropped, with all that is half done for it, and
// another process stands in for it.
void Service::stand_in_later(const pmix_proc_t& id) {
  missing_.push_back(id);
  alarms_.after(times_.late_connection, [this, id] {
    if (take_from(missing_, id)) forget(id);
  });
}

// By a process that has ended by now, or by the one that stands in for it.
void Service::connected_late(const pmix_proc_t& id) { take_from(missing_, id); }

void Service::forget(const pmix_proc_t& id) {
  forgetting_.push_back(id);
  server_->forget(id);
  alarms_.after(times_.answer, [this, id] {
    if (!take_from(forgetting_, id)) return;
    spoilt_ = true;
    ending_ = true;
    flux_shell_raise_exit_status(status_of_failure(*clients_.find(id)),
                                 "rank %u died while it was connecting, and libpmix does not get over that; not "
                                 "even -o fault-tolerance lets "
                                 "the others go on",
                                 id.rank);
  });
}

void Service::forgotten(const pmix_proc_t& id) {
  if (!take_from(forgetting_, id) || ending_) return;
  std::string path = flux_plugin_get_path(plugin_);
  std::size_t slash = path.rfind('/');
  path = (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) + "pmix-stand-in";
  std::vector<std::pair<std::string, std::string>> variables;
  std::string why = server_->add_process(id);
  if (why.empty()) why = server_->environment(id, variables);
  char* argv[] = {path.data(), nullptr};
  flux_cmd_t* command = flux_cmd_create(1, argv, nullptr);
  for (const auto& [name, value] : variables) flux_cmd_setenvf(command, 1, name.c_str(), "%s", value.c_str());
  flux_subprocess_t* process = flux_local_exec(flux_get_reactor(flux_shell_get_flux(shell_)), 0, command, nullptr);
  if (process == nullptr && why.empty()) why = path + ": " + std::strerror(errno);
  flux_cmd_destroy(command);
  if (process != nullptr) stand_ins_.push_back(process);
  if (!why.empty()) {
    shell_warn("%s; collective operations that wait for rank %u will not end", why.c_str(), id.rank);
  }
}

// For each lost connection libpmix expects one process less. If a process has lost its connection after all, while
// another began to stand in for it, that is one too many.
void Service::connection_lost(const pmix_proc_t& id) {
  shell_debug("rank %u of %s has lost its connection", id.rank, id.nspace);
  PmixClient* client = clients_.find(id);
  if (client == nullptr) return;
  if (!fault_tolerant_) return static_cast<void>(client->lost = true);
  take_from(missing_, id);
  take_from(forgetting_, id);
  if (!std::exchange(client->lost, true)) return;
  const auto& clients = clients_.find_namespace(id.nspace)->clients;
  auto left = std::count_if(clients.begin(), clients.end(), [](const auto& each) { return !each.second.lost; });
  server_->count_again(id.nspace, static_cast<int>(left));
}

}  // namespace nacre::pmix
