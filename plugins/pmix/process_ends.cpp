// SPDX-License-Identifier: Apache-2.0
#include "process_ends.hpp"

#include <sys/wait.h>

namespace nacre::pmix {
namespace {

constexpr double kLeaveGrace = 2;  // seconds

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

// Whether a process of the namespace has called PMIx_Init; spawned ones are expected to.
bool is_in_use(const Namespace& space) {
  if (space.facts.parent) return true;
  return std::any_of(space.clients.begin(), space.clients.end(),
                     [](const auto& each) { return each.second.state != PmixClient::State::absent; });
}

// A process that left without PMIx_Finalize may have the code 0, which cannot be the code of a job that it has
// ended.
int status_of_failure(const PmixClient& client) {
  return client.wait_status != 0 ? client.wait_status : W_EXITCODE(1, 0);
}

// The text that an aborting client has given, for the end of the line about the abort.
std::string note_of(const std::string& message) {
  return message.empty() || message == "N/A" ? "" : ": " + message;
}

}  // namespace

ProcessEnds::ProcessEnds(ServerApi& server, Clients& clients, ServedJob& job, Alarms& alarms, StandIns& stand_ins,
                         std::function<void()> read_requests)
    : server_(server),
      clients_(clients),
      job_(job),
      alarms_(alarms),
      stand_ins_(stand_ins),
      read_requests_(std::move(read_requests)) {}

void ProcessEnds::end() {
  peers_ = nullptr;
  killed_early_.clear();
  aborts_.clear();
  may_be_damaged_ = false;
}

void ProcessEnds::note_end(PmixClient& client, int wait_status) {
  read_requests_();
  client.ended = true;
  client.wait_status = wait_status;
  // The server's finalization may then wait for ever: libpmix 4.2.2 frees what it has of a rank whose process dies
  // while it connects, and goes on using it; and a lock in shared memory stays locked if its owner dies.
  if (is_failure(client)) job_.libpmix_may_hang = true;
}

void ProcessEnds::ended(const pmix_proc_t& id, PmixClient& client, int wait_status) {
  note_end(client, wait_status);
  peers_->ended(id, job_.tolerates_faults);
  std::string how = how_it_ended(wait_status) + " " + when_it_ended(client.state);
  if (!job_.goes_on() || clients_.find_namespace(id.nspace)->cancelled) return;
  if (auto abort = aborts_.find(id.rank); id.nspace == clients_.home() && abort != aborts_.end())
    return raise_abort(id, client, abort->second);
  if (!job_.tolerates_faults) {
    if (!is_failure(client) || client.state == PmixClient::State::aborted) return;
    if (!is_in_use(*clients_.find_namespace(id.nspace))) return killed_early_.push_back(id);
    end_job(id, client, how);
    return;
  }
  if (is_failure(client)) {
    shell_log("%s %s; the others go on", clients_.name_of(id, client).c_str(), how.c_str());
    notify_others(id, client.wait_status, true);
  }
  if (client.state == PmixClient::State::absent) stand_ins_.expect_for(id, status_of_failure(client));
}

// The namespace's processes would wait for those that were killed before.
void ProcessEnds::connected(const pmix_proc_t& id) {
  if (!job_.goes_on() || job_.tolerates_faults) return;
  for (const pmix_proc_t& each : killed_early_) {
    PmixClient* client = clients_.find(each);
    if (client != nullptr && std::strcmp(each.nspace, id.nspace) == 0)
      return end_job(each, *client, how_it_ended(client->wait_status) + " " + when_it_ended(client->state));
  }
}

void ProcessEnds::starts_again(const pmix_proc_t& id, PmixClient& client, int wait_status) {
  note_end(client, wait_status);
  aborts_.erase(id.rank);
  if (WIFSIGNALED(wait_status) && client.state == PmixClient::State::absent) may_be_damaged_ = true;
}

void ProcessEnds::end_job(const pmix_proc_t& id, const PmixClient& client, const std::string& how) {
  job_.is_ending = true;
  // the record of a client that has ended with 0 would not show that it is the cause
  const int rank = client.task != nullptr && client.wait_status == 0 ? static_cast<int>(id.rank) : -1;
  nacre_shell_raise_task_status(rank, status_of_failure(client), "%s %s; -o fault-tolerance lets the others go on",
                                clients_.name_of(id, client).c_str(), how.c_str());
}

void ProcessEnds::aborted(const pmix_proc_t& id, int status, const std::string& message,
                          const std::vector<pmix_proc_t>& ids, OperationReply reply) {
  PmixClient* client = clients_.find(id);
  if (client == nullptr) return reply(PMIX_ERR_NOT_FOUND);
  client->state = PmixClient::State::aborted;
  if (job_.may_restart && client->task != nullptr) {
    abort_later(id, {status, message});
    return reply(PMIX_SUCCESS);
  }
  Targets victims = find_targets(clients_, *peers_, id, ids);
  Targets others = find_targets(clients_, *peers_, id, {});
  std::erase(victims.here, client);
  std::erase(others.here, client);
  if (job_.tolerates_faults && victims.size() < others.size()) {
    shell_log("%s called PMIx_Abort for %zu others with code %d%s", clients_.name_of(id, *client).c_str(),
              victims.size(), status, note_of(message).c_str());
    signal_all(victims.here, SIGKILL);
    if (!victims.elsewhere.empty()) peers_->signal(victims.elsewhere, SIGKILL);
    return reply(PMIX_SUCCESS);
  }
  raise_abort(id, *client, {status, message});
  reply(PMIX_SUCCESS);
}

void ProcessEnds::raise_abort(const pmix_proc_t& id, const PmixClient& client, const Abort& abort) {
  job_.is_ending = true;
  // If a spawned process is the cause, no task is named.
  int rank = client.task != nullptr ? static_cast<int>(id.rank) : -1;
  nacre_shell_raise_task_status(rank, W_EXITCODE(failure_code(abort.status), 0),
                                "%s called PMIx_Abort with code %d%s", clients_.name_of(id, client).c_str(),
                                abort.status, note_of(abort.message).c_str());
}

void ProcessEnds::end_as_asked(const pmix_proc_t& id, const PmixClient& client, int signum) {
  if (std::exchange(job_.is_ending, true)) return;
  int rank = client.task != nullptr ? static_cast<int>(id.rank) : -1;
  nacre_shell_raise_task_status(rank, W_EXITCODE(0, signum), "%s called PMIx_Job_control to %s the job",
                                clients_.name_of(id, client).c_str(), signum == SIGKILL ? "kill" : "terminate");
}

// The task's end decides whether all start again. MPI libraries also abort when they find that another process has
// gone, which may be known here only later.
void ProcessEnds::abort_later(const pmix_proc_t& id, Abort abort) {
  if (job_.next) return;
  aborts_.insert_or_assign(id.rank, std::move(abort));
  alarms_.after(kLeaveGrace, [this, id] {
    PmixClient* client = clients_.find(id);
    if (client != nullptr && !client->ended) signal_all({client}, SIGKILL);
  });
}

// Clients register for different codes: the standard's code for this case, the code for any end, and the one that
// Open MPI 5 waits for.
void ProcessEnds::notify_others(const pmix_proc_t& id, int wait_status, bool on_all_nodes) {
  std::vector<pmix_status_t> codes{PMIX_EVENT_PROC_TERMINATED, PMIX_ERR_PROC_TERM_WO_SYNC};
  if (WIFSIGNALED(wait_status)) codes.insert(codes.end(), {PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_ABORTED});
  for (pmix_status_t code : codes) {
    InfoList about;
    about.proc(PMIX_EVENT_AFFECTED_PROC, id);
    about.integer(PMIX_EXIT_CODE, exit_code_of(wait_status));
    about.flag(PMIX_EVENT_NON_DEFAULT, true);
    if (on_all_nodes) peers_->notify(code, id, PMIX_RANGE_SESSION, about);
    server_.notify(code, id, PMIX_RANGE_SESSION, std::move(about));
  }
}

// All shells get this. If the loss of a node is tolerated, its processes count as killed.
void ProcessEnds::shell_lost(std::uint32_t shell) {
  job_.lost.insert(shell);
  if (peers_ == nullptr) return;
  const std::vector<pmix_proc_t> gone = peers_->left_on(shell);
  peers_->lost(shell);
  if (!job_.tolerates_faults || !server_.runs()) return;
  for (const pmix_proc_t& id : gone) notify_others(id, W_EXITCODE(0, SIGKILL), false);
}

// For each lost connection libpmix expects one process less. If a process has lost its connection after all, while
// another one began to stand in for it, that is one too many.
void ProcessEnds::connection_lost(const pmix_proc_t& id) {
  shell_debug("rank %u of %s has lost its connection", id.rank, id.nspace);
  PmixClient* client = clients_.find(id);
  if (client == nullptr) return;
  if (!job_.tolerates_faults) return static_cast<void>(client->lost = true);
  stand_ins_.connection_lost(id);
  if (!std::exchange(client->lost, true)) return;
  const auto& clients = clients_.find_namespace(id.nspace)->clients;
  auto left = std::count_if(clients.begin(), clients.end(), [](const auto& each) { return !each.second.lost; });
  server_.count_again(id.nspace, static_cast<int>(left));
}

// When a client has died the job ends, or all tasks start again. libpmix goes on without the client, and reports
// its death only for the fence in which it has died.
bool ProcessEnds::misses_client(pmix_status_t local) const {
  if (!job_.may_restart || local != PMIX_SUCCESS) return job_.may_restart;
  const auto& tasks = clients_.tasks();
  return std::any_of(tasks.begin(), tasks.end(), [](const auto& each) {
    const PmixClient& client = each.second;
    bool is_left = client.ended && client.state == PmixClient::State::connected;
    return is_left || (client.lost && client.state != PmixClient::State::finalized);
  });
}

// ---- stand ins --------------------------------------------------------------------------

namespace {

bool take_from(std::vector<pmix_proc_t>& list, const pmix_proc_t& proc) {
  return std::erase_if(list, [&](const pmix_proc_t& each) {
           return each.rank == proc.rank && std::strcmp(each.nspace, proc.nspace) == 0;
         }) > 0;
}

}  // namespace

void StandIns::expect_for(const pmix_proc_t& id, int failure) {
  missing_.push_back(id);
  alarms_.after(times_.late_connection, [this, id, failure] {
    if (take_from(missing_, id)) forget(id, failure);
  });
}

void StandIns::connected(const pmix_proc_t& id) { take_from(missing_, id); }

void StandIns::connection_lost(const pmix_proc_t& id) {
  take_from(missing_, id);
  take_from(forgetting_, id);
}

void StandIns::forget(const pmix_proc_t& id, int failure) {
  forgetting_.push_back(id);
  server_.forget(id);
  alarms_.after(times_.answer, [this, id, failure] {
    if (!take_from(forgetting_, id)) return;
    job_.libpmix_may_hang = true;
    job_.is_ending = true;
    flux_shell_raise_exit_status(failure,
                                 "rank %u died while it was connecting, and libpmix does not get over that; not "
                                 "even -o fault-tolerance lets "
                                 "the others go on",
                                 id.rank);
  });
}

void StandIns::forgotten(const pmix_proc_t& id) {
  if (!take_from(forgetting_, id) || job_.is_ending) return;
  if (std::string why = start(id); !why.empty()) {
    shell_warn("%s; collective operations that wait for rank %u will not end", why.c_str(), id.rank);
  }
}

std::string StandIns::start(const pmix_proc_t& id) {
  std::string path = flux_plugin_get_path(plugin_);
  std::size_t slash = path.rfind('/');
  path = (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) + "pmix-stand-in";
  std::vector<std::pair<std::string, std::string>> variables;
  std::string why = server_.add_process(id);
  if (why.empty()) why = server_.environment(id, variables);
  char* argv[] = {path.data(), nullptr};
  flux_cmd_t* command = flux_cmd_create(1, argv, nullptr);
  for (const auto& [name, value] : variables) flux_cmd_setenvf(command, 1, name.c_str(), "%s", value.c_str());
  flux_subprocess_t* process = flux_local_exec(flux_get_reactor(flux_shell_get_flux(shell_)), 0, command, nullptr);
  if (process == nullptr && why.empty()) why = path + ": " + std::strerror(errno);
  flux_cmd_destroy(command);
  if (process != nullptr) started_.push_back(process);
  return why;
}

void StandIns::clear() {
  for (flux_subprocess_t* process : started_) flux_subprocess_destroy(process);
  started_.clear();
}

// ---- alarms -----------------------------------------------------------------------------

void Alarms::after(double seconds, std::function<void()> function) {
  auto alarm = std::make_unique<Alarm>();
  alarm->function = std::move(function);
  auto ring = [](flux_reactor_t*, flux_watcher_t*, int, void* arg) {
    // The function may set another alarm, which destroys this one.
    auto rung = std::move(static_cast<Alarm*>(arg)->function);
    rung();
  };
  flux_reactor_t* reactor = flux_get_reactor(flux_shell_get_flux(shell_));
  alarm->watcher = flux_timer_watcher_create(reactor, seconds, 0, ring, alarm.get());
  if (alarm->watcher == nullptr) return;
  flux_watcher_start(alarm->watcher);
  flux_watcher_unref(alarm->watcher);
  std::erase_if(alarms_, [](const auto& each) { return !flux_watcher_is_active(each->watcher); });
  alarms_.push_back(std::move(alarm));
}

// ---- targets ----------------------------------------------------------------------------

Targets find_targets(Clients& clients, const Peers& peers, const pmix_proc_t& id,
                     const std::vector<pmix_proc_t>& named) {
  const std::uint32_t own = clients.shells().own;
  std::vector<Rank> numbers;
  std::vector<pmix_proc_t> wanted = named;
  if (wanted.empty()) wanted.push_back(proc_of(id.nspace, PMIX_RANK_WILDCARD));
  for (const pmix_proc_t& target : wanted) {
    for (Rank number : peers.processes().numbers_of(target.nspace)) {
      const ProcessMap::Place& place = *peers.processes().find(number);
      bool is_named = target.rank == PMIX_RANK_WILDCARD || target.rank == place.rank;
      if (is_named && place.node != own && !peers.has_ended(number)) numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return {clients.targets_of(id, named), std::move(numbers)};
}

}  // namespace nacre::pmix
