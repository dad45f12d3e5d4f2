// SPDX-License-Identifier: Apache-2.0
#include "service.hpp"

#include <dlfcn.h>
#include <pwd.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>

#include <jansson.h>

#include "group_calls.hpp"

// ---- home -------------------------------------------------------------------------------
//
// A HOME directory for processes whose environment has none: that of the job's user.

namespace nacre::pmix {

// Sets HOME for the job's processes, unless it is set: without it Open MPI 5 does not begin. As with login(1), it
// is the one of the user database, or else "/". Returns 0, or -1 after a line in the log.
int give_home(flux_shell_t* shell);

}  // namespace nacre::pmix

// ---- service ----------------------------------------------------------------------------

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

int Service::start() {
  job_.tolerates_faults = is_fault_tolerant(shell_);
  job_.may_restart = may_start_again(shell_);
  std::optional<JobLayout> layout = read_layout(shell_, 1);
  if (!layout) return -1;
  clients_.set_shells(std::move(layout->shells));
  if (!serves(layout->tasks)) return 0;  // nothing is served until some tasks come here
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

// Serves a start of all the job's tasks together. The server is the same for all their starts.
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
    // the same in all starts
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

// Has to run before the directory of libpmix's files is removed. The other processes do not wait for the tasks any
// more, even if spawned processes go on.
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

namespace {

// Adds the variables of Open MPI's mpirun that scripts read, as in its man page.
void add_open_mpi(const JobFacts& facts, pmix_rank_t rank, std::vector<std::pair<std::string, std::string>>& out) {
  const std::vector<pmix_rank_t>& here = facts.here().ranks;
  auto place = std::lower_bound(here.begin(), here.end(), rank) - here.begin();
  out.emplace_back("OMPI_COMM_WORLD_RANK", std::to_string(rank));
  out.emplace_back("OMPI_COMM_WORLD_SIZE", std::to_string(facts.size()));
  out.emplace_back("OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(place));
  out.emplace_back("OMPI_COMM_WORLD_NODE_RANK", std::to_string(place));
  out.emplace_back("OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(here.size()));
}

}  // namespace

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
  if (const Namespace* home = clients_.find_namespace(id.nspace)) add_open_mpi(home->facts, id.rank, variables);
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

// Notes it in the job's timeline, if it keeps one.
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

// ---- service requests -------------------------------------------------------------------
//
// Queries, signals, log lines and groups that clients request.

namespace nacre::pmix {
namespace {

// The key by which the targets get a name, as a set: libpmix has this key from version 5 on, and everything that it
// needs before that.
constexpr const char* kDefineSet = "pmix.jctrl.defpset";

// The name of a set. None: it cannot be one, as names are listed with commas between them.
std::optional<std::string> set_name_in(const pmix_value_t& value) {
  std::optional<std::string> name = value.type == PMIX_STRING ? text_of(value) : std::nullopt;
  if (name && (name->empty() || name->size() > PMIX_MAX_KEYLEN || name->find(',') != name->npos)) name.reset();
  return name;
}

// What a directive does. Signal 0: the directive is not served.
struct Act {
  int signum = 0;
  bool ends = false;  // the processes are meant to end
};

Act act_of(const pmix_info_t& directive) {
  if (is(directive, PMIX_JOB_CTRL_SIGNAL)) {
    std::int64_t number = number_of(directive.value).value_or(0);
    return {number > 0 && number <= SIGRTMAX ? static_cast<int>(number) : 0};
  }
  if (!is_true(directive.value)) return {};
  if (is(directive, PMIX_JOB_CTRL_KILL)) return {SIGKILL, true};
  if (is(directive, PMIX_JOB_CTRL_TERMINATE)) return {SIGTERM, true};
  if (is(directive, PMIX_JOB_CTRL_PAUSE)) return {SIGSTOP};
  if (is(directive, PMIX_JOB_CTRL_RESUME)) return {SIGCONT};
  return {};
}

bool has_all(const Targets& all, const Targets& some) {
  auto has = [&all](PmixClient* each) {
    return std::find(all.here.begin(), all.here.end(), each) != all.here.end();
  };
  return std::all_of(some.here.begin(), some.here.end(), has) &&
         std::includes(all.elsewhere.begin(), all.elsewhere.end(), some.elsewhere.begin(), some.elsewhere.end());
}

std::string name_of(const Targets& all, const std::vector<pmix_proc_t>& named) {
  if (named.size() == 1 && named[0].rank <= PMIX_RANK_VALID) return "rank " + std::to_string(named[0].rank);
  return std::to_string(all.size()) + (all.size() == 1 ? " process" : " processes");
}

bool is_about_how(const pmix_info_t& info) {
  for (const char* key : {PMIX_JOB_CTRL_ID, PMIX_TIMEOUT, PMIX_USERID, PMIX_GRPID, PMIX_LOG_SOURCE,
                          PMIX_LOG_TIMESTAMP, PMIX_LOG_GENERATE_TIMESTAMP, PMIX_LOG_ONCE}) {
    if (is(info, key)) return true;
  }
  return false;
}

}  // namespace

void Service::control(const pmix_proc_t& id, const std::vector<pmix_proc_t>& targets, const InfoList& directives,
                      InfoReply reply) {
  std::vector<Act> acts;
  std::optional<std::string> set;
  bool is_unknown = false;
  for (const pmix_info_t& directive : directives) {
    if (is_about_how(directive)) continue;
    if (is(directive, kDefineSet)) {
      set = set_name_in(directive.value);
      if (!set) return answer(reply, PMIX_ERR_BAD_PARAM, {});
      continue;
    }
    Act act = act_of(directive);
    if (act.signum != 0) {
      acts.push_back(act);
    } else if (PMIX_INFO_IS_REQUIRED(&directive)) {
      return answer(reply, PMIX_ERR_NOT_SUPPORTED, {});
    } else {
      is_unknown = true;
    }
  }
  if (set && acts.empty()) {
    std::vector<pmix_proc_t> members = targets;
    if (members.empty()) members.push_back(proc_of(id.nspace, PMIX_RANK_WILDCARD));
    return peers_->define_set(*set, members, reply);
  }
  if (set) return answer(reply, PMIX_ERR_NOT_SUPPORTED, {});  // a set and a signal together cannot both be answered
  if (acts.empty()) return answer(reply, is_unknown ? PMIX_ERR_NOT_SUPPORTED : PMIX_ERR_BAD_PARAM, {});
  const Targets all = find_targets(clients_, *peers_, id, targets);
  const PmixClient* client = clients_.find(id);
  if (all.empty() || client == nullptr) return answer(reply, PMIX_ERR_NOT_FOUND, {});
  // Answers before it sends the signals, as one of them may end the client that asked.
  answer(reply, PMIX_SUCCESS, {});
  const bool is_job = has_all(all, find_targets(clients_, *peers_, proc_of(clients_.home(), 0), {}));
  for (const auto& [signum, ends] : acts) {
    if (ends && is_job) ends_.end_as_asked(id, *client, signum);
    if (ends && is_job && signum == SIGTERM) continue;  // the job's end sends it as well
    const char* what = signum == SIGKILL ? "kill" : "terminate";
    if (ends && !is_job) {
      shell_log("%s called PMIx_Job_control to %s %s", clients_.name_of(id, *client).c_str(), what,
                name_of(all, targets).c_str());
    }
    if (!all.elsewhere.empty()) peers_->signal(all.elsewhere, signum);
    signal_all(all.here, signum);
  }
}

void Service::query(const std::vector<ClientQuery>& queries, InfoReply reply) {
  std::make_shared<QueryAnswer>(shell_, clients_, *peers_, job_.lost, reply)->find(queries, times_.list);
}

void Service::log(const pmix_proc_t& id, const InfoList& data, OperationReply reply) {
  bool all = true, any = false;
  for (const pmix_info_t& info : data) {
    if (is_about_how(info)) continue;
    std::optional<std::string> text = text_of(info.value);
    bool known = is(info, PMIX_LOG_STDERR) || is(info, PMIX_LOG_STDOUT);
    if (!known || !text) {
      all = false;
      continue;
    }
    any = true;
    while (!text->empty() && text->back() == '\n') text->pop_back();
    shell_log("rank %u: %s", id.rank, text->c_str());
  }
  reply(all ? PMIX_SUCCESS : any ? PMIX_ERR_PARTIAL_SUCCESS : PMIX_ERR_NOT_SUPPORTED);
}

// All members of this node have come, except those that libpmix has seen end. It forgets a member that has lost its
// connection, and leaves it out of operations that begin later.
void Service::group(GroupCall call, InfoReply reply) {
  shell_debug("group %s", call.name.c_str());
  for (const pmix_proc_t& member : call.members) {
    const Namespace* space = clients_.find_namespace(member.nspace);
    if (space == nullptr) continue;
    for (const auto& [rank, client] : space->clients) {
      bool is_member = member.rank == PMIX_RANK_WILDCARD || member.rank == rank;
      if (is_member && (client.ended || client.lost)) call.part.is_whole = false;
    }
  }
  call.part.number = ++group_calls_;
  peers_->group(call, reply);
}

}  // namespace nacre::pmix

// ---- service restart --------------------------------------------------------------------
//
// Tasks that start again. If a task that starts again has called PMIx_Init, all tasks of the job start again
// together: in a new namespace, whose map has the nodes that they are on then. libpmix itself goes on, as its end
// might hang once a client has died (see ProcessEnds::ended()). Remains of the former start, in libpmix and in
// messages of other shells, are known by their namespace and number.

namespace nacre::pmix {

// Also for a rank of another shell: that shell is lost, and the map of the namespace cannot change.
std::string Service::how_to_restart(std::uint32_t rank) {
  if (inbox_) inbox_->read();  // its last message may be that it has connected
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
  if (!link_) return 0;  // this shell stays without processes
  return serve_start(next.start, std::move(next.facts));
}

// libpmix has to forget a namespace only when the next one has ended: by then it has seen that all connections of
// the former one are closed. If a signal has ended a process that was perhaps connecting, libpmix 4.2.2 may have
// freed what is still in its list of the namespace's processes; then the list is left as it is.
void Service::end_former_start() {
  alarms_.clear();
  inbox_->read();
  for (const auto& [name, members] : peers_->sets()) server_->delete_set(name);
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

// ---- callbacks --------------------------------------------------------------------------

namespace nacre::pmix {
namespace {

std::mutex mutex;
Service* current = nullptr;

// PMIX_SUCCESS: an answer will follow.
template <typename Work>
pmix_status_t post(Work work) {
  std::lock_guard lock(mutex);
  Service* service = current;
  if (service == nullptr) return PMIX_ERR_UNREACH;
  service->inbox().post([service, work = std::move(work)] { work(*service); });
  return PMIX_SUCCESS;
}

std::vector<std::string> strings(char** list) {
  std::vector<std::string> copy;
  for (; list != nullptr && *list != nullptr; ++list) copy.emplace_back(*list);
  return copy;
}

pmix_status_t client_connected(const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t, pmix_op_cbfunc_t done,
                               void* data) {
  return post([id = *proc, reply = OperationReply{done, data}](Service& service) { service.connected(id, reply); });
}

pmix_status_t client_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t done, void* data) {
  return post([id = *proc, reply = OperationReply{done, data}](Service& service) { service.finalized(id, reply); });
}

pmix_status_t abort(const pmix_proc_t* proc, void*, int status, const char* message, pmix_proc_t* procs,
                    std::size_t nprocs, pmix_op_cbfunc_t done, void* data) {
  std::vector<pmix_proc_t> ids(procs, procs + nprocs);
  std::string text = message != nullptr ? message : "";
  return post([id = *proc, status, text, ids, reply = OperationReply{done, data}](Service& service) {
    service.ends().aborted(id, status, text, ids, reply);
  });
}

std::vector<pmix_proc_t> processes(const pmix_proc_t* procs, std::size_t count) {
  return count > 0 ? std::vector<pmix_proc_t>(procs, procs + count) : std::vector<pmix_proc_t>();
}

// Called if a participant is on another node, or has ended. libpmix passes its status as the last info.
pmix_status_t fence(const pmix_proc_t* procs, std::size_t nprocs, const pmix_info_t* info, std::size_t ninfo,
                    char* bytes, std::size_t size, pmix_modex_cbfunc_t done, void* data) {
  std::string mine(bytes != nullptr ? bytes : "", bytes != nullptr ? size : 0);
  std::free(bytes);
  pmix_status_t local = PMIX_SUCCESS;
  if (ninfo > 0 && is(info[ninfo - 1], PMIX_LOCAL_COLLECTIVE_STATUS)) local = info[ninfo - 1].value.data.status;
  return post([ids = processes(procs, nprocs), mine, local, timeout = timeout_in(InfoList(info, ninfo)),
               reply = ModexReply{done, data}](Service& service) {
    service.peers().fence(ids, local, mine, timeout, reply);
  });
}

// The key that the client waits for, "" if any will do; clients do not commit reserved keys.
std::string awaited_key(const InfoList& directives) {
  const pmix_value_t* key = directives.find(PMIX_REQUIRED_KEY);
  std::string name = key != nullptr ? text_of(*key).value_or("") : "";
  return PMIX_CHECK_RESERVED_KEY(name.c_str()) ? "" : name;
}

// Called for a process that is not on this node.
pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t ninfo,
                           pmix_modex_cbfunc_t done, void* data) {
  InfoList how(info, ninfo);
  return post([id = *proc, key = awaited_key(how), timeout = timeout_in(how), reply = ModexReply{done, data}](
                  Service& service) { service.peers().direct_modex(id, key, timeout, reply); });
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t ninfo, pmix_op_cbfunc_t done,
                      void* data) {
  return post([id = *proc, items = InfoList(info, ninfo), reply = OperationReply{done, data}](Service& service) {
    service.peers().publish(id, items, reply);
  });
}

pmix_status_t lookup(const pmix_proc_t* proc, char** keys, const pmix_info_t* info, std::size_t ninfo,
                     pmix_lookup_cbfunc_t done, void* data) {
  return post([id = *proc, names = strings(keys), how = InfoList(info, ninfo), done, data](Service& service) {
    service.peers().look_up(id, names, how, done, data);
  });
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t* info, std::size_t ninfo,
                        pmix_op_cbfunc_t done, void* data) {
  return post([id = *proc, names = strings(keys), how = InfoList(info, ninfo), reply = OperationReply{done, data}](
                  Service& service) { service.peers().unpublish(id, names, how, reply); });
}

pmix_status_t spawn(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t ninfo, const pmix_app_t* apps,
                    std::size_t napps, pmix_spawn_cbfunc_t done, void* data) {
  std::vector<SpawnApp> copies;
  for (std::size_t i = 0; i < napps; ++i) {
    SpawnApp app{strings(apps[i].argv), strings(apps[i].env), apps[i].cwd != nullptr ? apps[i].cwd : "",
                 apps[i].maxprocs};
    if (app.argv.empty() && apps[i].cmd != nullptr) app.argv = {apps[i].cmd};
    InfoList how(apps[i].info, apps[i].ninfo);
    if (const pmix_value_t* wdir = how.find(PMIX_WDIR); app.directory.empty() && wdir != nullptr) {
      app.directory = text_of(*wdir).value_or("");
    }
    if (const pmix_value_t* hosts = how.find(PMIX_HOST)) app.hosts = text_of(*hosts).value_or("");
    copies.push_back(std::move(app));
  }
  return post([id = *proc, job = InfoList(info, ninfo), copies, done, data](Service& service) {
    service.spawns().spawn(id, job, copies, done, data);
  });
}

// Needs no list of connected processes, as every end of a process is reported to all processes that ask for it.
template <char kind>
pmix_status_t connect(const pmix_proc_t* procs, std::size_t nprocs, const pmix_info_t* info, std::size_t ninfo,
                      pmix_op_cbfunc_t done, void* data) {
  return post([ids = processes(procs, nprocs), timeout = timeout_in(InfoList(info, ninfo)),
               reply = OperationReply{done, data}](Service& service) {
    service.peers().connect(kind, ids, timeout, reply);
  });
}

// Events go to all processes, whether they have registered or not.
pmix_status_t register_events(pmix_status_t*, std::size_t, const pmix_info_t*, std::size_t, pmix_op_cbfunc_t,
                              void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t deregister_events(pmix_status_t*, std::size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

// The clients of this node have the event already.
pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range,
                           pmix_info_t* info, std::size_t ninfo, pmix_op_cbfunc_t, void*) {
  pmix_status_t posted = post([code, id = *source, range, about = InfoList(info, ninfo)](Service& service) {
    service.peers().notify(code, id, range, about);
  });
  return posted == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : posted;
}

pmix_status_t query(pmix_proc_t*, pmix_query_t* queries, std::size_t count, pmix_info_cbfunc_t done, void* data) {
  std::vector<ClientQuery> copies;
  for (std::size_t i = 0; i < count; ++i) {
    copies.push_back({strings(queries[i].keys), InfoList(queries[i].qualifiers, queries[i].nqual)});
  }
  return post([copies, reply = InfoReply{done, data}](Service& service) { service.query(copies, reply); });
}

void log(const pmix_proc_t* client, const pmix_info_t* items, std::size_t count, const pmix_info_t*, std::size_t,
         pmix_op_cbfunc_t done, void* data) {
  OperationReply reply{done, data};
  pmix_status_t posted = post(
      [id = *client, copy = InfoList(items, count), reply](Service& service) { service.log(id, copy, reply); });
  if (posted != PMIX_SUCCESS) reply(posted);
}

pmix_status_t job_control(const pmix_proc_t* requestor, const pmix_proc_t* targets, std::size_t ntargets,
                          const pmix_info_t* directives, std::size_t ndirs, pmix_info_cbfunc_t done, void* data) {
  std::vector<pmix_proc_t> ids(targets, targets + ntargets);
  return post([id = *requestor, ids, how = InfoList(directives, ndirs),
               reply = InfoReply{done, data}](Service& service) { service.control(id, ids, how, reply); });
}

bool has_flag(const InfoList& directives, const char* key) {
  const pmix_value_t* value = directives.find(key);
  return value != nullptr && is_true(*value);
}

// PMIx 6 can find out the members by itself.
bool adds_members(const InfoList& directives) {
#ifdef PMIX_GROUP_BOOTSTRAP
  if (directives.find(PMIX_GROUP_BOOTSTRAP) != nullptr) return true;
#endif
  return directives.find(PMIX_GROUP_ADD_MEMBERS) != nullptr;
}

// Called when all members of this node have come. libpmix also passes what members have put, as an info.
pmix_status_t group(pmix_group_operation_t operation, char* name, const pmix_proc_t* procs, std::size_t nprocs,
                    const pmix_info_t* infos, std::size_t count, pmix_info_cbfunc_t done, void* data) {
  if (!is_first_call_for(data)) return PMIX_SUCCESS;
  InfoList directives(infos, count);
  if (nprocs == 0 || adds_members(directives)) return PMIX_ERR_NOT_SUPPORTED;
  GroupCall call;
  if (operation == PMIX_GROUP_DESTRUCT) call.kind = Groups::Kind::destruct;
  call.name = name != nullptr ? name : "";
  call.members = processes(procs, nprocs);
  call.timeout = timeout_in(directives);
  call.notifies = has_flag(directives, PMIX_GROUP_NOTIFY_TERMINATION);
  call.part.wants_id = has_flag(directives, PMIX_GROUP_ASSIGN_CONTEXT_ID);
  call.part.is_optional = has_flag(directives, PMIX_GROUP_OPTIONAL);
  const pmix_value_t* local = directives.find(PMIX_LOCAL_COLLECTIVE_STATUS);
  call.part.is_whole = local == nullptr || local->data.status == PMIX_SUCCESS;
  if (call.kind == Groups::Kind::construct) call.part.bytes = group_data_of(directives);
  return post([call, reply = InfoReply{done, data}](Service& service) { service.group(call, reply); });
}

}  // namespace

void serve(Service* service) {
  std::lock_guard lock(mutex);
  current = service;
}

pmix_server_module_t server_module() {
  pmix_server_module_t module{};
  module.client_connected2 = client_connected;
  module.client_finalized = client_finalized;
  module.abort = abort;
  module.fence_nb = fence;
  module.direct_modex = direct_modex;
  module.publish = publish;
  module.lookup = lookup;
  module.unpublish = unpublish;
  module.spawn = spawn;
  module.connect = connect<'c'>;
  module.disconnect = connect<'d'>;
  module.register_events = register_events;
  module.deregister_events = deregister_events;
  module.notify_event = notify_event;
  module.query = query;
  module.log = log;
  module.job_control = job_control;
  module.group = group;
  return module;
}

void process_forgotten(pmix_status_t, void* process) {
  std::unique_ptr<pmix_proc_t> id(static_cast<pmix_proc_t*>(process));
  post([copy = *id](Service& service) { service.stand_ins().forgotten(copy); });
}

void modex_found(pmix_status_t status, char* data, std::size_t size, void* question) {
  std::string bytes(data != nullptr ? data : "", data != nullptr ? size : 0);
  auto number = reinterpret_cast<std::uintptr_t>(question);
  post([number, status, bytes](Service& service) { service.peers().found(number, status, bytes); });
}

void key_looked_up(pmix_status_t status, std::uintptr_t question) {
  post([question, is_there = status == PMIX_SUCCESS](Service& service) {
    service.peers().key_looked_up(question, is_there);
  });
}

// A process that is deregistered takes part in nothing any more. This function deregisters it, not the loop, so
// that no client can begin a collective operation between the loss and this.
void lost_connection(std::size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t*, std::size_t, pmix_info_t*,
                     std::size_t, pmix_event_notification_cbfunc_fn_t done, void* data) {
  std::unique_lock lock(mutex);
  bool goes_on = current != nullptr && current->fault_tolerant();
  bool is_of_interest = current != nullptr && current->outlives_clients();
  lock.unlock();
  if (goes_on)
    PMIx_server_deregister_client(
        source, [](pmix_status_t, void*) {}, nullptr);
  if (is_of_interest) post([id = *source](Service& service) { service.ends().connection_lost(id); });
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
}

}  // namespace nacre::pmix

// ---- timers -----------------------------------------------------------------------------
//
// libpmix 4.2.2 has one timer for a fence, or for what is done with a group, and sets it for each of a node's
// processes that comes with PMIX_TIMEOUT. libevent must not be given a timer again that still runs: it would have
// it twice, and once the time is over libpmix's thread would only run it. So such a timer is stopped first. When a
// group's timer rings, libpmix takes its data of the group for something else, and ends with the shell: so that
// timer does nothing here. The service has time-outs of its own for groups.
//
// These functions replace those of libevent and libpmix for the libraries that this plugin brings, as it is loaded
// before them.

namespace {

constexpr short kEventTimeout = 1;

using EventCallback = void (*)(int, short, void*);

// None: libpmix does not use libevent.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// The memory may have anything in it, or be that of an earlier timer, for which libevent returns what it was
// assigned.
bool runs_already(void* event, void* base, EventCallback callback, void* argument) {
  static auto* const base_of = next<void*(const void*)>("event_get_base");
  static auto* const callback_of = next<EventCallback(const void*)>("event_get_callback");
  static auto* const argument_of = next<void*(const void*)>("event_get_callback_arg");
  static auto* const pending = next<int(const void*, short, void*)>("event_pending");
  if (base_of == nullptr || callback_of == nullptr || argument_of == nullptr || pending == nullptr) return false;
  return base_of(event) == base && callback_of(event) == callback && argument_of(event) == argument &&
         pending(event, kEventTimeout, nullptr) != 0;
}

int call_for_group(const char* name, void* caller, void* buffer) {
  auto* const call = next<int(void*, void*)>(name);
  if (call == nullptr) return -1;
  nacre::pmix::GroupCallScope scope;
  return call(caller, buffer);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int event_assign(void* event, void* base, int fd, short what,
                                                                   EventCallback callback, void* argument) {
  static auto* const assign = next<int(void*, void*, int, short, EventCallback, void*)>("event_assign");
  static auto* const stop = next<int(void*)>("event_del");
  if (assign == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  bool is_timer = fd < 0 && what == 0 && base != nullptr;
  if (is_timer && nacre::pmix::is_in_group_call()) callback = [](int, short, void*) {};
  if (is_timer && stop != nullptr && runs_already(event, base, callback, argument)) stop(event);
  return assign(event, base, fd, what, callback, argument);
}

extern "C" __attribute__((visibility("default"))) int pmix_server_grpconstruct(void* caller, void* buffer) {
  return call_for_group("pmix_server_grpconstruct", caller, buffer);
}

extern "C" __attribute__((visibility("default"))) int pmix_server_grpdestruct(void* caller, void* buffer) {
  return call_for_group("pmix_server_grpdestruct", caller, buffer);
}

// ---- home -------------------------------------------------------------------------------

namespace nacre::pmix {

int give_home(flux_shell_t* shell) {
  if (flux_shell_getenv(shell, "HOME") != nullptr) return 0;
  const passwd* user = ::getpwuid(::getuid());
  const bool has_home = user != nullptr && user->pw_dir != nullptr && user->pw_dir[0] != '\0';
  if (flux_shell_setenvf(shell, 0, "HOME", "%s", has_home ? user->pw_dir : "/") < 0) return shell_log_errno("HOME");
  return 0;
}

}  // namespace nacre::pmix

// ---- inbox ------------------------------------------------------------------------------

namespace nacre::pmix {

std::unique_ptr<ReactorInbox> ReactorInbox::create(flux_reactor_t* reactor) {
  int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return nullptr;
  std::unique_ptr<ReactorInbox> inbox(new ReactorInbox(fd));
  auto ready = [](flux_reactor_t*, flux_watcher_t*, int, void* arg) { static_cast<ReactorInbox*>(arg)->read(); };
  inbox->watcher_ = flux_fd_watcher_create(reactor, fd, FLUX_POLLIN, ready, inbox.get());
  if (inbox->watcher_ == nullptr) return nullptr;
  flux_watcher_start(inbox->watcher_);
  flux_watcher_unref(inbox->watcher_);
  return inbox;
}

ReactorInbox::~ReactorInbox() {
  flux_watcher_destroy(watcher_);
  ::close(fd_);
}

void ReactorInbox::post(Letter letter) {
  {
    std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }
  ::eventfd_write(fd_, 1);
}

void ReactorInbox::read() {
  eventfd_t posted = 0;
  ::eventfd_read(fd_, &posted);
  std::vector<Letter> letters;
  {
    std::lock_guard lock(mutex_);
    letters.swap(letters_);
  }
  for (Letter& letter : letters) letter();
}

}  // namespace nacre::pmix

// ---- server directory -------------------------------------------------------------------

namespace nacre::pmix {

int ServerDirectory::make(flux_shell_t* shell) {
  const char* below = flux_shell_getenv(shell, "FLUX_JOB_TMPDIR");
  if (below == nullptr) {
    shell_log_error("the job has no FLUX_JOB_TMPDIR for libpmix's files: leave the builtin plugin tmpdir in place");
    return -1;
  }
  std::string path = std::string(below) + "/pmix";
  if (::mkdir(path.c_str(), 0700) < 0) return shell_log_errno("%s", path.c_str());
  path_ = std::move(path);
  return 0;
}

}  // namespace nacre::pmix

// ---- end signals ------------------------------------------------------------------------

namespace nacre::pmix {

void EndSignals::watch() {
  auto received = [](flux_reactor_t*, flux_watcher_t*, int, void* job) {
    static_cast<ServedJob*>(job)->is_ending = true;
  };
  for (int signum : {SIGTERM, SIGINT, SIGHUP}) {
    flux_watcher_t* watcher =
        flux_signal_watcher_create(flux_get_reactor(flux_shell_get_flux(shell_)), signum, received, &job_);
    if (watcher == nullptr) continue;
    flux_watcher_start(watcher);
    flux_watcher_unref(watcher);
    watchers_.push_back(watcher);
  }
}

void EndSignals::ignore() {
  for (flux_watcher_t* watcher : watchers_) flux_watcher_destroy(watcher);
  watchers_.clear();
}

}  // namespace nacre::pmix

// ---- query answer -----------------------------------------------------------------------

namespace nacre::pmix {
namespace {

constexpr const char* kKeys =
    PMIX_QUERY_SUPPORTED_KEYS "," PMIX_QUERY_NAMESPACES "," PMIX_QUERY_NAMESPACE_INFO "," PMIX_QUERY_JOB_STATUS
                              "," PMIX_QUERY_PROC_TABLE "," PMIX_QUERY_LOCAL_PROC_TABLE "," PMIX_QUERY_SPAWN_SUPPORT
                              "," PMIX_QUERY_DEBUG_SUPPORT "," PMIX_QUERY_NUM_PSETS "," PMIX_QUERY_PSET_NAMES
                              "," PMIX_QUERY_PSET_MEMBERSHIP "," PMIX_JOB_SIZE "," PMIX_TIME_REMAINING;

}  // namespace

void QueryAnswer::find(const std::vector<ClientQuery>& queries, double seconds) {
  for (const ClientQuery& each : queries) {
    for (const std::string& key : each.keys) {
      ++keys_;
      if (find_key(key, each.qualifiers, seconds)) ++found_;
    }
  }
  close();
}

void QueryAnswer::close() {
  if (--open_ > 0) return;
  pmix_status_t status = PMIX_SUCCESS;
  if (found_ < keys_)
    status = found_ > 0 ? PMIX_ERR_PARTIAL_SUCCESS : lacks_the_set_ ? PMIX_ERR_NOT_FOUND : PMIX_ERR_NOT_SUPPORTED;
  answer(reply_, status, std::move(results_));
}

// Looks in the namespace that a qualifier names, or else in that of the job's tasks.
bool QueryAnswer::find_key(const std::string& key, const InfoList& qualifiers, double seconds) {
  std::string nspace = clients_.home();
  if (const pmix_value_t* named = qualifiers.find(PMIX_NSPACE)) nspace = text_of(*named).value_or(nspace);
  const Namespace* space = clients_.find_namespace(nspace);
  if (key == PMIX_QUERY_SUPPORTED_KEYS) {
    results_.string(PMIX_QUERY_SUPPORTED_KEYS, kKeys);
  } else if (key == PMIX_QUERY_NAMESPACES) {
    std::string names;
    for (const auto& [name, each] : clients_.namespaces()) names += (names.empty() ? "" : ",") + name;
    results_.string(PMIX_QUERY_NAMESPACES, names);
  } else if (key == PMIX_QUERY_NAMESPACE_INFO) {
    add_namespaces();
  } else if (key == PMIX_QUERY_SPAWN_SUPPORT) {
    results_.string(PMIX_QUERY_SPAWN_SUPPORT, PMIX_WDIR);
  } else if (key == PMIX_QUERY_DEBUG_SUPPORT) {
    results_.string(PMIX_QUERY_DEBUG_SUPPORT, "");
  } else if (key == PMIX_TIME_REMAINING) {
    return add_time_remaining();
  } else if (key == PMIX_QUERY_NUM_PSETS || key == PMIX_QUERY_PSET_NAMES || key == PMIX_QUERY_PSET_MEMBERSHIP) {
    return add_sets(key, qualifiers);
  } else if (space == nullptr) {
    return false;
  } else if (key == PMIX_JOB_SIZE) {
    results_.number(PMIX_JOB_SIZE, space->facts.size());
  } else if (key == PMIX_QUERY_JOB_STATUS) {
    pmix_status_t running = PMIX_SUCCESS;
    results_.add(PMIX_QUERY_JOB_STATUS, &running, PMIX_STATUS);
  } else if (key == PMIX_QUERY_PROC_TABLE) {
    ++open_;
    peers_.list(nspace, seconds, [self = shared_from_this(), nspace](const ProcessTables::Rows& rows) {
      self->add_table(PMIX_QUERY_PROC_TABLE, nspace, rows);
      self->close();
    });
  } else if (key == PMIX_QUERY_LOCAL_PROC_TABLE) {
    ProcessTables::Rows rows;
    for (ProcessRow& row : clients_.rows_of(nspace)) rows[row.rank] = std::move(row);
    add_table(PMIX_QUERY_LOCAL_PROC_TABLE, nspace, rows);
  } else {
    return false;
  }
  return true;
}

void QueryAnswer::add_namespaces() {
  InfoList all;
  for (const auto& [name, each] : clients_.namespaces()) {
    all.array(PMIX_JOB_INFO_ARRAY,
              std::move(InfoList().string(PMIX_NSPACE, name).number(PMIX_JOB_SIZE, each.facts.size())));
  }
  results_.array(PMIX_QUERY_NAMESPACE_INFO, std::move(all));
}

bool QueryAnswer::add_sets(const std::string& key, const InfoList& qualifiers) {
  const auto& sets = peers_.sets();
  const std::size_t count = sets.size();
  if (key == PMIX_QUERY_NUM_PSETS) {
    results_.add(PMIX_QUERY_NUM_PSETS, &count, PMIX_SIZE);
  } else if (key == PMIX_QUERY_PSET_NAMES && count > 0) {
    std::string names;
    for (const auto& [name, members] : sets) names += (names.empty() ? "" : ",") + name;
    results_.string(PMIX_QUERY_PSET_NAMES, names);
  } else {
    const pmix_value_t* named = qualifiers.find(PMIX_PSET_NAME);
    const auto set = named != nullptr ? sets.find(text_of(*named).value_or("")) : sets.end();
    lacks_the_set_ = set == sets.end();
    if (lacks_the_set_) return false;
    results_.procs(PMIX_QUERY_PSET_MEMBERSHIP, set->second);
  }
  return true;
}

bool QueryAnswer::add_time_remaining() {
  double expiration = 0;
  if (flux_shell_info_unpack(shell_, "{s:{s:{s?F}}}", "R", "execution", "expiration", &expiration) < 0)
    return false;
  if (expiration <= 0) return false;
  double left = expiration - static_cast<double>(std::time(nullptr));
  results_.number(PMIX_TIME_REMAINING, static_cast<std::uint32_t>(std::max(left, 0.0)));
  return true;
}

// The state of a process of another shell that has sent no row.
pmix_proc_state_t QueryAnswer::state_from_afar(Rank number) const {
  const std::uint32_t shell = peers_.processes().find(number)->node;
  if (lost_.count(shell) > 0) return PMIX_PROC_STATE_COMM_FAILED;
  return peers_.has_ended(number) ? PMIX_PROC_STATE_TERMINATED : PMIX_PROC_STATE_UNDEF;
}

// The local table only has this shell's processes.
void QueryAnswer::add_table(const char* key, const std::string& nspace, ProcessTables::Rows rows) {
  const JobShells& shells = clients_.shells();
  std::vector<pmix_proc_info_t> out;
  for (Rank number : peers_.processes().numbers_of(nspace)) {
    const ProcessMap::Place& place = *peers_.processes().find(number);
    if (key == std::string_view(PMIX_QUERY_LOCAL_PROC_TABLE) && place.node != shells.own) continue;
    auto known = rows.find(place.rank);
    if (known == rows.end())
      known = rows.emplace(place.rank, ProcessRow{place.rank, 0, state_from_afar(number), 0, {}}).first;
    pmix_proc_info_t& row = out.emplace_back();
    row.proc = proc_of(nspace, place.rank);
    row.hostname = const_cast<char*>(shells.hosts.at(place.node).c_str());
    row.executable_name = known->second.command.data();
    row.pid = known->second.pid;
    row.exit_code = known->second.exit_code;
    row.state = known->second.state;
  }
  pmix_data_array_t array{PMIX_PROC_INFO, out.size(), out.data()};
  results_.add(key, &array, PMIX_DATA_ARRAY);
}

}  // namespace nacre::pmix
