// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <numeric>

#include <jansson.h>

#include "service.hpp"

namespace nacre::pmix {
namespace {

// Only the shell's own thread receives its signals.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

// hwloc loads all its plugins into a process that asks for a topology, as libpmix does in PMIx_server_init: those
// for devices load the drivers that are installed, such as OpenCL's, which takes tens of milliseconds. Neither this
// shell needs them, nor what libpmix tells tasks about the node. This does not change the tasks' environment.
class WithoutDrivers {
 public:
  WithoutDrivers() {
    if (const char* given = std::getenv(kVariable)) before_ = given;
    const std::string names = before_ ? *before_ + "," + kPlugins : kPlugins;
    ::setenv(kVariable, names.c_str(), 1);
  }
  ~WithoutDrivers() {
    if (before_)
      ::setenv(kVariable, before_->c_str(), 1);
    else
      ::unsetenv(kVariable);
  }
  WithoutDrivers(const WithoutDrivers&) = delete;
  WithoutDrivers& operator=(const WithoutDrivers&) = delete;

 private:
  static constexpr const char* kVariable = "HWLOC_PLUGINS_BLACKLIST";  // by the names of their files
  static constexpr const char* kPlugins = "hwloc_opencl,hwloc_cuda,hwloc_nvml,hwloc_rsmi,hwloc_levelzero,hwloc_gl";
  std::optional<std::string> before_;
};

void watch_connections() {
  pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
  PMIx_Register_event_handler(&code, 1, nullptr, 0, lost_connection, nullptr, nullptr);
}

}  // namespace

std::string words_of(pmix_status_t status) {
  return std::string(PMIx_Error_string(status)) + " (" + std::to_string(status) + ")";
}

std::string PmixServer::start(const ServerFacts& facts) {
  // Otherwise libpmix reports a lost connection only after a second, to collect more of them.
  ::setenv("PMIX_MCA_pmix_event_caching_window", "0", 0);
  if (facts.lockless) ::setenv("PMIX_MCA_gds", "hash", 1);
  InfoList info;
  info.string(PMIX_SERVER_NSPACE, facts.nspace).rank(PMIX_SERVER_RANK, facts.rank);
  info.string(PMIX_SERVER_TMPDIR, facts.directory).string(PMIX_SYSTEM_TMPDIR, facts.directory);
  info.string(PMIX_HOSTNAME, facts.host).number(PMIX_NODEID, facts.rank);
  info.flag(PMIX_SERVER_TOOL_SUPPORT, false).flag(PMIX_SERVER_REMOTE_CONNECTIONS, false);
  BlockedSignals blocked;
  const WithoutDrivers without;
  pmix_server_module_t module = server_module();
  pmix_status_t status = PMIx_server_init(&module, info.data(), info.size());
  if (status != PMIX_SUCCESS) return words_of(status);
  runs_ = true;
  watch_connections();
  return {};
}

void PmixServer::stop() {
  if (!runs_) return;
  PMIx_server_finalize();
  runs_ = false;
}

// The server does not know this process, so it has nothing to forget.
bool PmixServer::answers(double seconds) {
  struct Answer {
    std::mutex mutex;
    std::condition_variable come;
    bool is_there = false;
  };
  auto answer = std::make_shared<Answer>();
  auto done = [](pmix_status_t, void* data) {
    std::unique_ptr<std::shared_ptr<Answer>> own(static_cast<std::shared_ptr<Answer>*>(data));
    std::lock_guard lock((*own)->mutex);
    (*own)->is_there = true;
    (*own)->come.notify_one();
  };
  pmix_proc_t nobody = proc_of("nobody", 0);
  PMIx_server_deregister_client(&nobody, done, new std::shared_ptr<Answer>(answer));
  std::unique_lock lock(answer->mutex);
  return answer->come.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return answer->is_there; });
}

std::string PmixServer::environment(const pmix_proc_t& proc,
                                    std::vector<std::pair<std::string, std::string>>& variables) {
  // An empty environment instead of none: with none, libpmix uses the shell's own if `environ` is also none.
  auto** env = static_cast<char**>(std::calloc(1, sizeof(char*)));
  pmix_status_t status = PMIx_server_setup_fork(&proc, &env);
  for (char** each = env; each != nullptr && *each != nullptr; ++each) {
    std::string text = *each;
    std::free(*each);
    std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::free(env);
  return status == PMIX_SUCCESS ? std::string() : words_of(status);
}

void PmixServer::remove_job(const std::string& nspace) {
  PMIx_server_deregister_nspace(nspace.c_str(), nullptr, nullptr);
}

void PmixServer::count_again(const std::string& nspace, int processes) {
  auto info = std::make_unique<InfoList>();
  info->flag(PMIX_REGISTER_NODATA, true);
  auto done = [](pmix_status_t, void* data) { delete static_cast<InfoList*>(data); };
  pmix_status_t status =
      PMIx_server_register_nspace(nspace.c_str(), processes, info->data(), info->size(), done, info.get());
  if (status == PMIX_SUCCESS) (void)info.release();
}

std::string PmixServer::add_process(const pmix_proc_t& proc) {
  pmix_status_t status = PMIx_server_register_client(&proc, ::getuid(), ::getgid(), nullptr, nullptr, nullptr);
  return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED ? std::string() : words_of(status);
}

void PmixServer::forget(const pmix_proc_t& proc) {
  PMIx_server_deregister_client(&proc, process_forgotten, new pmix_proc_t(proc));
}

void PmixServer::find_modex(const pmix_proc_t& proc, std::uintptr_t question) {
  auto* passed_on = reinterpret_cast<void*>(question);
  pmix_status_t status = PMIx_server_dmodex_request(&proc, modex_found, passed_on);
  if (status != PMIX_SUCCESS) modex_found(status, nullptr, 0, passed_on);
}

void PmixServer::look_up_key(const pmix_proc_t& proc, const std::string& key, std::uintptr_t question) {
  struct Search {
    std::string key;
    InfoList how;
    std::uintptr_t question;
  };
  std::unique_ptr<Search> search(new Search{key, {}, question});
  pmix_scope_t scope = PMIX_REMOTE;
  search->how.add(PMIX_DATA_SCOPE, &scope, PMIX_SCOPE);
  auto done = [](pmix_status_t status, pmix_value_t* value, void* data) {
    std::unique_ptr<Search> own(static_cast<Search*>(data));
    if (value != nullptr) PMIX_VALUE_RELEASE(value);
    key_looked_up(status, own->question);
  };
  pmix_status_t status =
      PMIx_Get_nb(&proc, search->key.c_str(), search->how.data(), search->how.size(), done, search.get());
  if (status != PMIX_SUCCESS) return key_looked_up(status, question);
  (void)search.release();
}

void PmixServer::add_resources(InfoList resources, InfoReply reply, InfoList results) {
  struct Waiting {
    InfoList resources;
    InfoReply reply;
    InfoList results;
  };
  std::unique_ptr<Waiting> waiting(new Waiting{std::move(resources), reply, std::move(results)});
  auto done = [](pmix_status_t status, void* data) {
    std::unique_ptr<Waiting> own(static_cast<Waiting*>(data));
    answer(own->reply, status, std::move(own->results));
  };
  InfoList& infos = waiting->resources;
  pmix_status_t status = PMIx_server_register_resources(infos.data(), infos.size(), done, waiting.get());
  if (status == PMIX_SUCCESS) {
    (void)waiting.release();
  } else {
    answer(reply, status, {});
  }
}

void PmixServer::notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, InfoList about) {
  auto kept = std::make_unique<InfoList>(std::move(about));
  auto done = [](pmix_status_t, void* data) { delete static_cast<InfoList*>(data); };
  pmix_status_t status = PMIx_Notify_event(code, &source, range, kept->data(), kept->size(), done, kept.get());
  if (status == PMIX_SUCCESS) (void)kept.release();
}

// What version 4.2 returns is no status.
void PmixServer::define_set(const std::string& name, const std::vector<pmix_proc_t>& members) {
  PMIx_server_define_process_set(members.data(), members.size(), name.c_str());
}

void PmixServer::delete_set(const std::string& name) { PMIx_server_delete_process_set(std::string(name).data()); }

// ---- registration -----------------------------------------------------------------------
//
// What clients find by PMIx_Get about their job, their node and each other.

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

// ---- job layout -------------------------------------------------------------------------

namespace {

std::string this_host() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// The job's hosts by node; this host's name if R has none. Two nodes may be on one host. Hosts that have joined
// since the list was first read are not in it.
std::vector<std::string> hosts_of(flux_shell_t* shell, int nodes) {
  const hostlist* list = flux_shell_get_hostlist(shell);
  std::vector<std::string> hosts;
  for (int node = 0; node < nodes; ++node) {
    const char* host = list != nullptr ? hostlist_nth(const_cast<hostlist*>(list), node) : nullptr;
    if (host == nullptr) flux_shell_rank_info_unpack(shell, node, "{s:s}", "name", &host);
    hosts.emplace_back(host != nullptr && *host != '\0' ? host : this_host());
  }
  return hosts;
}

// The namespace of the first start of all tasks; empty: it cannot be had.
std::string namespace_of(flux_shell_t* shell) {
  Arguments args(flux_plugin_arg_create());
  const char* name = nullptr;
  if (flux_shell_plugstack_call(shell, "pmi.namespace", args.get()) < 0 ||
      flux_plugin_arg_unpack(args.get(), FLUX_PLUGIN_ARG_OUT, "{s:s}", "namespace", &name) < 0)
    return {};
  return name;
}

std::vector<pmix_rank_t> ranks_of(const taskmap* map, int node) {
  std::vector<pmix_rank_t> ranks;
  const idset* ids = taskmap_taskids(map, node);
  for (unsigned id = idset_first(ids); id != IDSET_INVALID_ID; id = idset_next(ids, id)) ranks.push_back(id);
  return ranks;
}

}  // namespace

std::optional<JobLayout> read_layout(flux_shell_t* shell, std::uint64_t start) {
  json_int_t id = 0;
  int rank = 0, size = 0, ntasks = 0, slots = 0, version = 0;
  if (flux_shell_info_unpack(shell, "{s:I s:i s:i s:i}", "jobid", &id, "rank", &rank, "size", &size, "ntasks",
                             &ntasks) < 0 ||
      flux_shell_jobspec_info_unpack(shell, "{s:i s:i}", "version", &version, "nslots", &slots) < 0) {
    shell_log_errno("cannot find how the job is laid out");
    return std::nullopt;
  }
  JobLayout layout;
  JobShells& shells = layout.shells;
  JobFacts& facts = layout.tasks;
  const taskmap* map = flux_shell_get_taskmap(shell);
  facts.job_id = std::to_string(id);
  facts.nspace = namespace_of(shell);
  if (facts.nspace.empty()) {
    shell_log_error(
        "there is no namespace for the tasks: the builtin plugin pmi has to be there, and libcrypto.so.3");
    return std::nullopt;
  }
  if (start > 1) facts.nspace += "." + std::to_string(start);
  shells.own = static_cast<std::uint32_t>(rank);
  std::vector<std::string> hosts = hosts_of(shell, size);
  shells.hosts = distinct(std::move(hosts));
  facts.this_node = JobFacts::kNowhere;
  for (int node = 0; node < taskmap_nnodes(map); ++node) {
    std::vector<pmix_rank_t> ranks = ranks_of(map, node);
    if (ranks.empty()) continue;
    if (node == rank) facts.this_node = static_cast<std::uint32_t>(facts.nodes.size());
    facts.nodes.push_back(
        {shells.hosts.at(static_cast<std::size_t>(node)), std::move(ranks), static_cast<std::uint32_t>(node)});
  }
  facts.app_sizes = {static_cast<std::uint32_t>(ntasks)};
  facts.slots = static_cast<std::uint32_t>(slots);
  facts.universe = std::max(facts.slots, ask_spawning(shell, "universe_size"));
  return layout;
}

// ---- served job -------------------------------------------------------------------------

bool is_fault_tolerant(flux_shell_t* shell) {
  json_t* option = nullptr;
  if (flux_shell_getopt_unpack(shell, "fault-tolerance", "o", &option) <= 0) return false;
  bool zero = json_is_integer(option) && json_integer_value(option) == 0;
  std::string_view text = json_is_string(option) ? json_string_value(option) : "";
  bool off = text == "off" || text == "false" || text == "0";
  return !json_is_false(option) && !json_is_null(option) && !zero && !off;
}

bool may_start_again(flux_shell_t* shell) {
  const char* text = nullptr;
  if (flux_shell_getopt_unpack(shell, "restart", "s", &text) <= 0) return false;
  return std::string_view(text) != "never" && !is_fault_tolerant(shell);
}

}  // namespace nacre::pmix
