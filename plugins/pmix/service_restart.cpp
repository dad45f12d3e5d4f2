// SPDX-License-Identifier: Apache-2.0
//
// Tasks that start again. All of them do, together, once one of a shell's has called PMIx_Init: in a new namespace,
// whose map has the nodes that they are on by then. libpmix itself goes on: once a client has died under it, it
// might not come to an end (see Service::ended()). What is left of the former start, in libpmix and in messages of
// other shells, is known by its namespace and its number.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

#include "service.hpp"

namespace nacre::pmix {
namespace {

constexpr double kLeaveGrace = 2;  // seconds

}  // namespace

bool may_start_again(flux_shell_t* shell) {
  const char* text = nullptr;
  if (flux_shell_getopt_unpack(shell, "restart", "s", &text) <= 0) return false;
  return std::string_view(text) != "never" && !is_fault_tolerant(shell);
}

// A rank of another shell: that is lost, and the map of the namespace cannot change.
std::string Service::how_to_restart(std::uint32_t rank) {
  if (inbox_) inbox_->read();  // the last thing that it sent may be that it has connected
  if (!spawns_.namespaces.empty()) return "processes that tasks have spawned by PMIx do not start again";
  const std::map<pmix_rank_t, PmixClient>& tasks = clients_.tasks();
  bool is_here = tasks.count(rank) > 0;
  bool in_use = is_here && std::any_of(tasks.begin(), tasks.end(), [](const auto& each) {
                  return each.second.state != PmixClient::State::absent;
                });
  if (is_here && !in_use) return "alone";
  if (!fault_tolerant_) return "together";
  return is_here ? "tasks have called PMIx_Init, and go on without it (fault-tolerance)"
                 : "the other tasks go on without it in PMIx (fault-tolerance)";
}

// A client that has died ends the job, or all start again. libpmix goes on without it, and reports that only for
// the fence in which it has died.
bool Service::misses_client(pmix_status_t local) const {
  if (!again_.is_on || local != PMIX_SUCCESS) return again_.is_on;
  const auto& tasks = clients_.tasks();
  return std::any_of(tasks.begin(), tasks.end(), [](const auto& each) {
    const PmixClient& client = each.second;
    bool is_left = client.ended && client.state == PmixClient::State::connected;
    return is_left || (client.lost && client.state != PmixClient::State::finalized);
  });
}

// Nothing follows for the others from how it has ended.
void Service::starts_again(const pmix_proc_t& id, PmixClient& client, int wait_status) {
  if (inbox_) inbox_->read();  // handles what it sent before it ended
  client.ended = true;
  client.wait_status = wait_status;
  again_.aborts.erase(id.rank);
  if (WIFSIGNALED(wait_status) || client.state == PmixClient::State::connected) spoilt_ = true;
  if (WIFSIGNALED(wait_status) && client.state == PmixClient::State::absent) again_.is_damaged = true;
}

// Whether all start again is decided by how the task ends. MPI libraries abort, too, when they find that another
// process has gone, which may be known here only later.
void Service::abort_later(const pmix_proc_t& id, RestartState::Abort abort) {
  if (again_.next) return;
  again_.aborts.insert_or_assign(id.rank, std::move(abort));
  alarms_.after(kLeaveGrace, [this, id] {
    PmixClient* client = clients_.find(id);
    if (client != nullptr && !client->ended) signal_all({client}, SIGKILL);
  });
}

int Service::await_start(std::uint64_t start) {
  std::optional<JobLayout> layout = read_layout(shell_, start);
  if (!layout) return -1;
  clients_.set_shells(std::move(layout->shells));
  if (serves(layout->tasks)) {
    if (make_directory() < 0 || separate_segments() < 0 || (!link_ && listen() < 0)) return -1;
    link_->await(start);
  }
  again_.next = RestartState::Next{start, std::move(layout->tasks)};
  drop_spawned(SIGTERM);
  return 0;
}

int Service::start_again() {
  if (!again_.next) return 0;
  bool was_served = peers_ != nullptr;
  if (was_served && !server_->answers(times_.answer)) {
    spoilt_ = true;
    shell_log_error(
        "libpmix does not answer any more: it may not get over a process that has died while it connected");
    stop();
    return -1;
  }
  if (was_served) end_former_start();
  RestartState::Next next = *std::exchange(again_.next, std::nullopt);
  if (!link_) return 0;  // it stays without processes
  return serve_start(next.start, std::move(next.facts));
}

// libpmix forgets a namespace only when the next one has come to its end: by then it has seen that all connections
// of the former one are closed. If a signal has ended a process that was perhaps connecting, libpmix 4.2.2 may have
// freed what is still in the list of the namespace's processes; then that is left as it is.
void Service::end_former_start() {
  alarms_.clear();
  inbox_->read();
  again_.aborts.clear();
  drop_spawned(SIGKILL);
  forget_spawns();
  peers_->give_up();
  peers_.reset();
  for (const pmix_proc_t& each : again_.former) server_->forget(each);
  if (!again_.former.empty()) server_->remove_job(again_.former.front().nspace);
  again_.former.clear();
  const std::string& home = clients_.home();
  if (clients_.tasks().empty()) server_->remove_job(home);
  for (const auto& [rank, client] : clients_.tasks()) {
    if (!again_.is_damaged) again_.former.push_back(proc_of(home, rank));
  }
  again_.is_damaged = false;
  clients_.clear();
}

}  // namespace nacre::pmix
