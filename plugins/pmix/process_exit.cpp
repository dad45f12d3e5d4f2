// SPDX-License-Identifier: Apache-2.0
//
// How a process ends, and what that means for the others.
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

const char* when_it_ended(Client::State state) {
  switch (state) {
    case Client::State::absent: return "before PMIx_Init";
    case Client::State::connected: return "after PMIx_Init, without PMIx_Finalize";
    case Client::State::finalized: return "after PMIx_Finalize";
    default: return "after PMIx_Abort";
  }
}

// Not every process of a job has to be a client: one that exits without ever calling PMIx_Init harms nobody by that.
bool is_failure(const Client& client) {
  return WIFSIGNALED(client.wait_status) || client.state == Client::State::connected;
}

// The code of one that left without a farewell may well be 0, which a job that was ended must not have.
int status_of_failure(const Client& client) {
  return client.wait_status != 0 ? client.wait_status : W_EXITCODE(1, 0);
}

}  // namespace

std::string Service::name_of(const pmix_proc_t& who, const Client& client) const {
  auto space = namespaces_.find(who.nspace);
  std::string text = "rank " + std::to_string(who.rank);
  if (who.nspace != home_) text += " of " + std::string(who.nspace);
  if (pid_t pid = pid_of(client); pid > 0) text += " (process " + std::to_string(pid) + ")";
  return text + " on " + space->second.facts.here().host;
}

pid_t Service::pid_of(const Client& client) const {
  json_int_t pid = 0;
  if (client.task != nullptr && flux_shell_task_info_unpack(client.task, "{s:I}", "pid", &pid) == 0) {
    return static_cast<pid_t>(pid);
  }
  return client.process != nullptr ? flux_subprocess_pid(client.process) : 0;
}

int Service::task_ended(flux_shell_task_t* task) {
  int rank = 0, wait_status = 0;
  if (flux_shell_task_info_unpack(task, "{s:i s:i}", "rank", &rank, "wait_status", &wait_status) < 0) {
    return shell_log_errno("cannot tell how a task ended");
  }
  pmix_proc_t who = proc_of(home_, static_cast<pmix_rank_t>(rank));
  if (Client* client = find(who)) ended(who, *client, wait_status);
  return 0;
}

void Service::ended(const pmix_proc_t& who, Client& client, int wait_status) {
  if (inbox_) inbox_->read();  // what it said before it ended
  client.ended = true;
  client.wait_status = wait_status;
  peers_->ended(who, fault_tolerant_);
  // Its finalization may then wait for ever: libpmix 4.2.2 frees what it knows of a rank whose process dies in the middle
  // of connecting, and goes on using it; and a lock in shared memory stays locked if its owner dies.
  if (is_failure(client)) spoilt_ = true;
  std::string how = how_it_ended(wait_status) + " " + when_it_ended(client.state);
  if (ending_ || namespaces_[who.nspace].cancelled) return;
  if (!fault_tolerant_) {
    if (is_failure(client) && client.state != Client::State::aborted) end_job(who, client, how);
    return;
  }
  if (is_failure(client)) {
    shell_log("%s %s; the others go on", name_of(who, client).c_str(), how.c_str());
    tell_others(who, client.wait_status, true);
  }
  if (client.state == Client::State::absent) stand_in_later(who);
}

void Service::end_job(const pmix_proc_t& who, const Client& client, const std::string& how) {
  end_spawned();
  flux_shell_raise_exit_status(status_of_failure(client), "%s %s; -o fault-tolerance lets the others go on",
                               name_of(who, client).c_str(), how.c_str());
}

void Service::aborted(const pmix_proc_t& who, int status, const std::string& message,
                      const std::vector<pmix_proc_t>& whom, Reply reply) {
  Client* client = find(who);
  if (client == nullptr) return reply(PMIX_ERR_NOT_FOUND);
  client->state = Client::State::aborted;
  std::vector<Client*> victims = targets_of(who, whom);
  std::vector<Rank> far_victims = elsewhere(who, whom);
  std::size_t others = elsewhere(who, {}).size();
  for (const auto& [rank, each] : namespaces_[who.nspace].clients) others += &each != client && !each.ended ? 1 : 0;
  std::string name = name_of(who, *client);
  std::string note = message.empty() || message == "N/A" ? "" : ": " + message;
  std::erase(victims, client);
  std::size_t named = victims.size() + far_victims.size();
  if (fault_tolerant_ && named < others) {
    shell_log("%s called PMIx_Abort for %zu others with code %d%s", name.c_str(), named, status, note.c_str());
    signal(victims, SIGKILL);
    if (!far_victims.empty()) peers_->signal(far_victims, SIGKILL);
    return reply(PMIX_SUCCESS);
  }
  end_spawned();
  flux_shell_raise_exit_status(W_EXITCODE(failure_code(status), 0), "%s called PMIx_Abort with code %d%s",
                               name.c_str(), status, note.c_str());
  reply(PMIX_SUCCESS);
}

// The codes that clients ask for differ: what the standard has for the case, for any end, and what Open MPI 5 waits for.
void Service::tell_others(const pmix_proc_t& who, int wait_status, bool on_all_nodes) {
  std::vector<pmix_status_t> codes{PMIX_EVENT_PROC_TERMINATED, PMIX_ERR_PROC_TERM_WO_SYNC};
  if (WIFSIGNALED(wait_status)) codes.insert(codes.end(), {PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED});
  for (pmix_status_t code : codes) {
    InfoList about;
    about.proc(PMIX_EVENT_AFFECTED_PROC, who);
    about.integer(PMIX_EXIT_CODE,
                  WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    about.flag(PMIX_EVENT_NON_DEFAULT, true);
    if (on_all_nodes) peers_->notify(code, who, PMIX_RANGE_SESSION, about);
    server_->notify(code, who, PMIX_RANGE_SESSION, std::move(about));
  }
}

// All shells hear of it. Where the loss of a node is tolerated, its processes count as killed.
void Service::shell_lost(std::uint32_t shell) {
  const JobFacts& facts = namespaces_[home_].facts;
  std::vector<Rank> gone;
  for (Rank rank : shell < facts.nodes.size() ? facts.nodes[shell].ranks : std::vector<pmix_rank_t>()) {
    if (!peers_->has_ended(rank)) gone.push_back(rank);
  }
  peers_->lost(shell);
  if (!fault_tolerant_ || !server_->runs()) return;
  for (Rank rank : gone) tell_others(proc_of(home_, rank), W_EXITCODE(0, SIGKILL), false);
}

// What ended before it had a connection is in every collective operation of its namespace that others begin. If it has
// none even then, its registration is dropped, with whatever is half done for it, and somebody stands in.
void Service::stand_in_later(const pmix_proc_t& who) {
  missing_.push_back(who);
  after(times_.late_connection, [this, who] {
    if (take_from(missing_, who)) forget(who);
  });
}

// By a process that has ended by now, or by what stands in for it.
void Service::connected_late(const pmix_proc_t& who) { take_from(missing_, who); }

void Service::forget(const pmix_proc_t& who) {
  forgetting_.push_back(who);
  server_->forget(who);
  after(times_.answer, [this, who] {
    if (!take_from(forgetting_, who)) return;
    spoilt_ = true;
    end_spawned();
    flux_shell_raise_exit_status(status_of_failure(*find(who)),
                                 "rank %u died while it was connecting, and libpmix does not get over that; not "
                                 "even -o fault-tolerance lets "
                                 "the others go on",
                                 who.rank);
  });
}

void Service::forgotten(const pmix_proc_t& who) {
  if (!take_from(forgetting_, who) || ending_) return;
  std::string path = flux_plugin_get_path(plugin_);
  std::size_t slash = path.rfind('/');
  path = (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) + "pmix-stand-in";
  std::vector<std::pair<std::string, std::string>> variables;
  std::string why = server_->add_process(who);
  if (why.empty()) why = server_->environment(who, variables);
  char* argv[] = {path.data(), nullptr};
  flux_cmd_t* command = flux_cmd_create(1, argv, nullptr);
  for (const auto& [name, value] : variables) flux_cmd_setenvf(command, 1, name.c_str(), "%s", value.c_str());
  flux_subprocess_t* process = flux_local_exec(flux_get_reactor(flux_shell_get_flux(shell_)), 0, command, nullptr);
  if (process == nullptr && why.empty()) why = path + ": " + std::strerror(errno);
  flux_cmd_destroy(command);
  if (process != nullptr) stand_ins_.push_back(process);
  if (!why.empty()) {
    shell_warn("%s; collective operations that wait for rank %u will not end", why.c_str(), who.rank);
  }
}

// libpmix counts on one process less for each connection that is lost. Where a process has lost its own after all,
// while another began to stand in for it, that is one too many.
void Service::connection_lost(const pmix_proc_t& who) {
  shell_debug("rank %u of %s has lost its connection", who.rank, who.nspace);
  Client* client = find(who);
  if (client == nullptr) return;
  take_from(missing_, who);
  take_from(forgetting_, who);
  if (!std::exchange(client->lost, true)) return;
  const auto& clients = namespaces_[who.nspace].clients;
  auto left = std::count_if(clients.begin(), clients.end(), [](const auto& each) { return !each.second.lost; });
  server_->count_again(who.nspace, static_cast<int>(left));
}

}  // namespace nacre::pmix
