// SPDX-License-Identifier: Apache-2.0
#include "service.hpp"

#include <functional>
#include <optional>
#include <utility>

#include <jansson.h>

#include "callbacks.hpp"
#include "group_calls.hpp"
#include "home.hpp"
#include "job_layout.hpp"

namespace nacre::pmix {

Service::Service(flux_plugin_t* plugin, flux_shell_t* shell, std::unique_ptr<ServerApi> server, Times times)
    : shell_(shell),
      server_(std::move(server)),
      times_(times),
      alarms_(shell),
      stand_ins_(plugin, shell, *server_, alarms_, times, job_),
      ends_(*server_, clients_, job_, alarms_, stand_ins_,
            [this] {
              if (inbox_) inbox_->read();
            }),
      spawns_(shell, *server_, clients_, job_, ends_),
      end_signals_(shell, job_) {}

Service::~Service() { stop(); }

int Service::start() {
  job_.tolerates_faults = is_fault_tolerant(shell_);
  job_.may_restart = may_start_again(shell_);
  std::optional<JobLayout> layout = read_layout(shell_, 1);
  if (!layout) return -1;
  clients_.set_shells(std::move(layout->shells));
  if (!serves(layout->tasks)) return 0;  // until some come here
  if (prepare() < 0) return -1;
  return serve_start(1, std::move(layout->tasks));
}

// Whether processes of this start may run on this shell.
bool Service::serves(const JobFacts& facts) {
  return inbox_ || !facts.here().ranks.empty() || ask_spawning(shell_, "takes_part") != 0;
}

int Service::prepare() {
  if (directory_.prepare(shell_) < 0 || give_home(shell_) < 0) return -1;
  if (link_) return 0;
  link_ = std::make_unique<PeerLink>(shell_);
  return link_->listen() < 0 ? shell_log_errno("cannot receive from the other shells") : 0;
}

std::unique_ptr<Peers> Service::make_peers(const JobFacts& home) {
  Peers::Duties duties;
  duties.signal = [this](const std::vector<pmix_proc_t>& targets, int signum) {
    signal_all(clients_.targets_of(targets.front(), targets), signum);
  };
  duties.after = [this](double seconds, std::function<void()> function) {
    alarms_.after(seconds, std::move(function));
  };
  duties.misses_client = [this](pmix_status_t local) { return ends_.misses_client(local); };
  duties.rows = [this](const std::string& nspace) { return clients_.rows_of(nspace); };
  const JobShells& shells = clients_.shells();
  return std::make_unique<Peers>(*link_, *server_, home,
                                 Peers::Shells{shells.own, static_cast<std::uint32_t>(shells.hosts.size())},
                                 std::move(duties));
}

// Of the job's tasks, all together. The server is the same for all their starts.
int Service::serve_start(std::uint64_t start, JobFacts facts) {
  bool is_first = !inbox_;
  facts.directory = directory_.path();
  const JobFacts& home = clients_.begin(std::move(facts)).facts;
  const JobShells& shells = clients_.shells();
  peers_ = make_peers(home);
  ends_.begin(*peers_);
  spawns_.begin(*peers_);
  std::string why;
  if (is_first) {
    inbox_ = ReactorInbox::create(flux_get_reactor(flux_shell_get_flux(shell_)));
    if (!inbox_) return shell_log_errno("cannot watch for libpmix's requests");
    serve(this);
    // The same in all starts.
    why = server_->start({"shell-" + home.nspace.substr(0, home.nspace.find('.')), shells.own, directory_.path(),
                          shells.hosts.at(shells.own), outlives_clients()});
    if (why.empty()) end_signals_.watch();
  } else {
    begin_groups_of(clients_.home());
  }
  if (why.empty()) why = server_->add_job(home);
  if (why.empty()) {
    link_->begin(start, [this](const PeerMessage& message) { peers_->receive(message); });
    for (std::uint32_t shell : job_.lost) peers_->lost(shell);
    return 0;
  }
  shell_log_error(
      "libpmix cannot serve the job: %s (PMIX_MCA_ptl_base_verbose=10 in the shell's environment shows more)",
      why.c_str());
  stop();
  return -1;
}

// Has to run before the directory of libpmix's files is removed. Others do not wait for the tasks any more, also if
// spawned processes go on.
void Service::tasks_are_over() {
  over_ = true;
  if (!inbox_) return stop();
  if (!server_->runs() || ask_spawning(shell_, "goes_on") == 0) return spawns_over();
  for (const auto& [rank, client] : clients_.tasks()) peers_->ended(proc_of(clients_.home(), rank), true);
}

void Service::spawns_over() {
  if (!over_ || !server_->runs()) return;
  peers_->over();
  stop();
}

void Service::stop() {
  alarms_.clear();
  if (link_) link_->close();
  serve(nullptr);
  if (!job_.libpmix_may_hang && server_->runs() && !server_->answers(times_.answer / 2)) {
    shell_log_error("libpmix does not answer any more, and is left as it is");
    job_.libpmix_may_hang = true;
  }
  if (job_.libpmix_may_hang) {
    server_->abandon();
  } else if (server_->runs()) {
    for (const auto& [name, space] : clients_.namespaces()) server_->remove_job(name);
    server_->stop();
  }
  end_signals_.ignore();
  inbox_.reset();
  stand_ins_.clear();
  spawns_.stop();
}

int Service::prepare_task(flux_shell_task_t* task) {
  int rank = 0;
  if (flux_shell_task_info_unpack(task, "{s:i}", "rank", &rank) < 0)
    return shell_log_errno("cannot find the rank of a task");
  pmix_proc_t id = proc_of(clients_.home(), static_cast<pmix_rank_t>(rank));
  flux_cmd_t* command = flux_shell_task_cmd(task);
  if (PmixClient* client = clients_.find(id)) {
    if (client->ended) *client = {};  // it starts again, alone
    client->task = task;
    const char* program = flux_cmd_arg(command, 0);
    client->command = program != nullptr ? program : "";
  }
  std::vector<std::pair<std::string, std::string>> variables;
  if (std::string why = server_->environment(id, variables); !why.empty()) {
    shell_log_error("rank %d: libpmix has no environment for it: %s", rank, why.c_str());
    return -1;
  }
  for (const auto& [name, value] : variables) {
    if (flux_cmd_setenvf(command, 1, name.c_str(), "%s", value.c_str()) < 0) {
      return shell_log_errno("rank %d: %s", rank, name.c_str());
    }
  }
  return 0;
}

int Service::task_started(flux_shell_task_t* task) {
  int rank = 0;
  if (flux_shell_task_info_unpack(task, "{s:i}", "rank", &rank) < 0) return -1;
  if (PmixClient* client = clients_.find(proc_of(clients_.home(), static_cast<pmix_rank_t>(rank))))
    client->started = true;
  return 0;
}

int Service::task_ended(flux_shell_task_t* task) {
  int rank = 0, wait_status = 0, again = 0;
  if (flux_shell_task_info_unpack(task, "{s:i s:i s?b}", "rank", &rank, "wait_status", &wait_status, "starts_again",
                                  &again) < 0) {
    return shell_log_errno("cannot find how a task ended");
  }
  pmix_proc_t id = proc_of(clients_.home(), static_cast<pmix_rank_t>(rank));
  if (PmixClient* client = clients_.find(id))
    again != 0 ? ends_.starts_again(id, *client, wait_status) : ends_.ended(id, *client, wait_status);
  return 0;
}

void Service::connected(const pmix_proc_t& id, OperationReply reply) {
  PmixClient* client = clients_.find(id);
  if (client != nullptr && client->ended) stand_ins_.connected(id);
  if (client != nullptr && !client->ended) {
    client->state = PmixClient::State::connected;
    ends_.connected(id);
    mark("pmi.init", id);
  }
  reply(client != nullptr ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND);
}

void Service::finalized(const pmix_proc_t& id, OperationReply reply) {
  if (PmixClient* client = clients_.find(id); client != nullptr && client->state == PmixClient::State::connected) {
    client->state = PmixClient::State::finalized;
    mark("pmi.finalize", id);
  }
  reply(PMIX_SUCCESS);
}

// In the job's timeline, if it keeps one.
void Service::mark(const char* what, const pmix_proc_t& id) {
  json_t* option = nullptr;
  if (flux_shell_getopt_unpack(shell_, "timeline", "o", &option) <= 0 || clients_.home() != id.nspace) return;
  flux_plugin_arg_t* args = flux_plugin_arg_create();
  if (flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_IN, "{s:s s:i}", "name", what, "rank",
                           static_cast<int>(id.rank)) == 0)
    flux_shell_plugstack_call(shell_, "timeline.mark", args);
  flux_plugin_arg_destroy(args);
}

}  // namespace nacre::pmix
