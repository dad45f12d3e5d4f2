// SPDX-License-Identifier: Apache-2.0
//
// PMIx_Spawn: processes on this node, in a namespace of their own, with the shell's own stdin, stdout and stderr.
// The job waits for them.
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include <jansson.h>

#include "service.hpp"

namespace nacre::pmix {
namespace {

constexpr double kGrace = 5;  // seconds

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> job_environment(flux_shell_t* shell) {
  std::vector<std::string> variables;
  char* text = nullptr;
  if (flux_shell_get_environ(shell, &text) < 0) return variables;
  json_t* all = json_loads(text, 0, nullptr);
  std::free(text);
  const char* name = nullptr;
  json_t* value = nullptr;
  json_object_foreach(all, name, value) variables.push_back(std::string(name) + "=" + json_string_value(value));
  json_decref(all);
  return variables;
}

std::string directory_of(flux_shell_t* shell) {
  const char* cwd = nullptr;
  flux_shell_info_unpack(shell, "{s:{s:{s:{s?s}}}}", "jobspec", "attributes", "system", "cwd", &cwd);
  return cwd != nullptr ? cwd : "";
}

}  // namespace

void Service::spawn(const pmix_proc_t& id, const InfoList& job, const std::vector<App>& apps,
                    pmix_spawn_cbfunc_t function, void* data) {
  bool is_former = find(id) == nullptr;
  if (ending_ || again_.next || is_former) return function(PMIX_ERR_JOB_CANCELED, nullptr, data);
  if (peers_->several()) {
    shell_log_error("rank %u: PMIx_Spawn: processes can be added to a job of one node only", id.rank);
    return function(PMIX_ERR_NOT_SUPPORTED, nullptr, data);
  }
  Namespace space;
  space.facts = namespaces_[home_].facts;
  space.facts.nspace = home_ + "-spawn-" + std::to_string(++spawns_);
  space.facts.parent = id;
  space.facts.global_offset = processes_;
  space.facts.app_sizes.clear();
  JobFacts::Node here{space.facts.here().host, {}};
  for (const App& app : apps) {
    if (app.argv.empty() || app.count < 1) return function(PMIX_ERR_JOB_NO_EXE_SPECIFIED, nullptr, data);
    space.facts.app_sizes.push_back(static_cast<std::uint32_t>(app.count));
  }
  for (pmix_rank_t rank = 0; rank < space.facts.size(); ++rank) here.ranks.push_back(rank);
  space.facts.nodes = {std::move(here)};
  space.facts.this_node = 0;
  pmix_nspace_t name{};
  space.facts.nspace.copy(name, PMIX_MAX_NSLEN);
  if (std::string why = server_->add_job(space.facts); !why.empty()) {
    shell_log_error("rank %u: PMIx_Spawn: %s", id.rank, why.c_str());
    return function(PMIX_ERR_JOB_FAILED_TO_LAUNCH, nullptr, data);
  }
  processes_ += space.facts.size();
  std::string directory;
  if (const pmix_value_t* wdir = job.find(PMIX_WDIR)) directory = text_of(*wdir).value_or("");
  if (directory.empty()) directory = directory_of(shell_);
  Namespace& kept = namespaces_[name] = std::move(space);
  pmix_rank_t first = 0;
  for (App app : apps) {
    if (app.directory.empty()) app.directory = directory;
    if (!start_app(kept, app, first)) {
      int error = errno;
      kept.cancelled = true;
      shell_log_error("rank %u: PMIx_Spawn: %s: %s", id.rank, app.argv[0].c_str(), std::strerror(error));
      signal_all(targets_of(proc_of(name, 0), {}), SIGKILL);
      return function(error == ENOENT ? PMIX_ERR_JOB_EXE_NOT_FOUND : PMIX_ERR_JOB_FAILED_TO_LAUNCH, nullptr, data);
    }
    first += static_cast<pmix_rank_t>(app.count);
  }
  function(PMIX_SUCCESS, name, data);
}

// false with errno.
bool Service::start_app(Namespace& space, const App& app, pmix_rank_t first) {
  std::vector<std::string> environment = job_environment(shell_);
  std::vector<char*> argv = pointers(app.argv);
  std::vector<char*> base = pointers(environment);
  flux_subprocess_ops_t ops{};
  ops.on_completion = [](flux_subprocess_t* process) {
    auto* service = static_cast<Service*>(flux_subprocess_aux_get(process, "pmix"));
    service->spawned_ended(process, flux_subprocess_status(process));
  };
  for (int i = 0; i < app.count; ++i) {
    pmix_proc_t id = proc_of(space.facts.nspace, first + static_cast<pmix_rank_t>(i));
    flux_cmd_t* command = flux_cmd_create(static_cast<int>(app.argv.size()), argv.data(), base.data());
    std::vector<std::pair<std::string, std::string>> variables;
    for (const std::string& text : app.env) {
      std::size_t equals = text.find('=');
      if (equals != std::string::npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    server_->environment(id, variables);
    for (const auto& [name, value] : variables) flux_cmd_setenvf(command, 1, name.c_str(), "%s", value.c_str());
    if (!app.directory.empty()) flux_cmd_setcwd(command, app.directory.c_str());
    flux_subprocess_t* process = flux_local_exec(flux_get_reactor(flux_shell_get_flux(shell_)),
                                                 FLUX_SUBPROCESS_FLAGS_STDIO_FALLTHROUGH, command, &ops);
    int error = errno;
    flux_cmd_destroy(command);
    if (process == nullptr) {
      errno = error;
      return false;
    }
    flux_subprocess_aux_set(process, "pmix", this, nullptr);
    PmixClient& client = space.clients[id.rank];
    client.process = process;
    client.command = app.argv[0];
    client.started = true;
    ++space.running;
    spawned_[process] = id;
    flux_shell_add_completion_ref(shell_, "pmix-spawn");
  }
  return true;
}

void Service::spawned_ended(flux_subprocess_t* process, int wait_status) {
  auto it = spawned_.find(process);
  if (it == spawned_.end()) return;
  pmix_proc_t id = it->second;
  PmixClient* client = find(id);
  bool known = namespaces_[id.nspace].cancelled || ending_;
  ended(id, *client, wait_status);
  bool reported =
      client->state == PmixClient::State::connected || client->state == PmixClient::State::aborted;  // by ended()
  if (!known && !reported && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0) {
    shell_warn("%s, which was spawned, exited with code %d", name_of(id, *client).c_str(),
               WEXITSTATUS(wait_status));
  }
  client->process = nullptr;
  spawned_.erase(it);
  flux_subprocess_destroy(process);
  if (--namespaces_[id.nspace].running == 0) peers_->namespace_ended(id.nspace);
  if (over_ && spawned_.empty()) stop();
  flux_shell_remove_completion_ref(shell_, "pmix-spawn");
}

void Service::watch_signals() {
  auto ring = [](flux_reactor_t*, flux_watcher_t*, int, void* arg) { static_cast<Service*>(arg)->end_spawned(); };
  for (int signum : {SIGTERM, SIGINT, SIGHUP}) {
    flux_watcher_t* watcher =
        flux_signal_watcher_create(flux_get_reactor(flux_shell_get_flux(shell_)), signum, ring, this);
    if (watcher == nullptr) continue;
    flux_watcher_start(watcher);
    flux_watcher_unref(watcher);
    signals_.push_back(watcher);
  }
}

void Service::end_spawned() {
  if (std::exchange(ending_, true)) return;
  auto all = [this](int signum) {
    for (auto& [process, id] : spawned_) flux_future_destroy(flux_subprocess_kill(process, signum));
  };
  all(SIGTERM);
  if (!spawned_.empty()) alarms_.after(kGrace, [all] { all(SIGKILL); });
}

}  // namespace nacre::pmix
