// SPDX-License-Identifier: Apache-2.0
//
// Tasks that start again. All of them do, together, once one of a shell's has called PMIx_Init: in a new namespace,
// whose map has the nodes that they are on by then. libpmix itself goes on: once a client has died under it, it
// might not come to an end (see ProcessEnds::ended()). What is left of the former start, in libpmix and in messages
// of other shells, is known by its namespace and its number.
#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "service.hpp"

namespace nacre::pmix {

// A rank of another shell: that is lost, and the map of the namespace cannot change.
std::string Service::how_to_restart(std::uint32_t rank) {
  if (inbox_) inbox_->read();  // the last thing that it sent may be that it has connected
  if (!spawns_.empty()) return "processes that tasks have spawned by PMIx do not start again";
  const std::map<pmix_rank_t, PmixClient>& tasks = clients_.tasks();
  bool is_here = tasks.count(rank) > 0;
  bool in_use = is_here && std::any_of(tasks.begin(), tasks.end(), [](const auto& each) {
                  return each.second.state != PmixClient::State::absent;
                });
  if (is_here && !in_use) return "alone";
  if (!job_.tolerates_faults) return "together";
  return is_here ? "tasks have called PMIx_Init, and go on without it (fault-tolerance)"
                 : "the other tasks go on without it in PMIx (fault-tolerance)";
}

int Service::await_start(std::uint64_t start) {
  std::optional<JobLayout> layout = read_layout(shell_, start);
  if (!layout) return -1;
  clients_.set_shells(std::move(layout->shells));
  if (serves(layout->tasks)) {
    if (prepare() < 0) return -1;
    link_->await(start);
  }
  job_.next = ServedJob::Next{start, std::move(layout->tasks)};
  spawns_.cancel(SIGTERM);
  return 0;
}

int Service::start_again() {
  if (!job_.next) return 0;
  bool was_served = peers_ != nullptr;
  if (was_served && !server_->answers(times_.answer)) {
    job_.libpmix_may_hang = true;
    shell_log_error(
        "libpmix does not answer any more: it may not get over a process that has died while it connected");
    stop();
    return -1;
  }
  if (was_served) end_former_start();
  ServedJob::Next next = *std::exchange(job_.next, std::nullopt);
  if (!link_) return 0;  // it stays without processes
  return serve_start(next.start, std::move(next.facts));
}

// libpmix forgets a namespace only when the next one has come to its end: by then it has seen that all connections
// of the former one are closed. If a signal has ended a process that was perhaps connecting, libpmix 4.2.2 may have
// freed what is still in the list of the namespace's processes; then that is left as it is.
void Service::end_former_start() {
  alarms_.clear();
  inbox_->read();
  spawns_.cancel(SIGKILL);
  spawns_.end();
  const bool may_be_damaged = ends_.may_be_damaged();
  ends_.end();
  peers_->give_up();
  peers_.reset();
  for (const pmix_proc_t& each : former_) server_->forget(each);
  if (!former_.empty()) server_->remove_job(former_.front().nspace);
  former_.clear();
  const std::string& home = clients_.home();
  if (clients_.tasks().empty()) server_->remove_job(home);
  for (const auto& [rank, client] : clients_.tasks()) {
    if (!may_be_damaged) former_.push_back(proc_of(home, rank));
  }
  clients_.clear();
}

}  // namespace nacre::pmix
