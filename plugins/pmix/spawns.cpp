// SPDX-License-Identifier: Apache-2.0
#include "spawns.hpp"

#include <sys/wait.h>

namespace nacre::pmix {
namespace {

std::string directory_of(flux_shell_t* shell) {
  const char* cwd = nullptr;
  flux_shell_info_unpack(shell, "{s:{s:{s:{s?s}}}}", "jobspec", "attributes", "system", "cwd", &cwd);
  return cwd != nullptr ? cwd : "";
}

std::string text_in(const InfoList& infos, const char* key) {
  const pmix_value_t* value = infos.find(key);
  return value != nullptr ? text_of(*value).value_or("") : "";
}

// nullptr: one of them is no UTF-8.
json_t* array_of(const std::vector<std::string>& texts) {
  json_t* array = json_array();
  for (const std::string& text : texts) {
    if (json_array_append_new(array, json_stringn(text.data(), text.size())) == 0) continue;
    json_decref(array);
    return nullptr;
  }
  return array;
}

// A new reference; nullptr: a text is no UTF-8.
json_t* program_of(const SpawnApp& app, const InfoList& job, const std::string& directory) {
  std::string wdir = !app.directory.empty() ? app.directory : text_in(job, PMIX_WDIR);
  if (wdir.empty()) wdir = directory;
  const std::string host = !app.hosts.empty() ? app.hosts : text_in(job, PMIX_HOST);
  json_t* argv = array_of(app.argv);
  json_t* env = array_of(app.env);
  json_t* program = argv != nullptr && env != nullptr
                        ? json_pack("{s:i s:O s:O}", "processes", app.count, "argv", argv, "env", env)
                        : nullptr;
  json_decref(argv);
  json_decref(env);
  auto add = [&](const char* key, const std::string& text) {
    if (program == nullptr || text.empty()) return;
    if (json_object_set_new(program, key, json_string(text.c_str())) == 0) return;
    json_decref(program);
    program = nullptr;
  };
  add("wdir", wdir);
  add("host", host);
  return program;
}

pmix_status_t status_of(int error) {
  if (error == ENOENT) return PMIX_ERR_JOB_EXE_NOT_FOUND;
  return error == ECANCELED ? PMIX_ERR_JOB_CANCELED : PMIX_ERR_JOB_FAILED_TO_LAUNCH;
}

json_int_t number_in(json_t* object, const char* key) { return json_integer_value(json_object_get(object, key)); }

}  // namespace

std::uint32_t ask_spawning(flux_shell_t* shell, const char* what) {
  Arguments args(flux_plugin_arg_create());
  json_t* answer = nullptr;
  if (flux_shell_plugstack_call(shell, "pmi.spawning", args.get()) < 0) return 0;
  flux_plugin_arg_unpack(args.get(), FLUX_PLUGIN_ARG_OUT, "{s?o}", what, &answer);
  return json_is_true(answer) ? 1 : static_cast<std::uint32_t>(json_integer_value(answer));
}

// ---- requests ------------------------------------------------------------------------------

void Spawns::spawn(const pmix_proc_t& id, const InfoList& job, const std::vector<SpawnApp>& apps,
                   pmix_spawn_cbfunc_t function, void* data) {
  bool is_former = clients_.find(id) == nullptr;
  if (!job_.goes_on() || is_former) return function(PMIX_ERR_JOB_CANCELED, nullptr, data);
  const std::string directory = directory_of(shell_);
  json_t* programs = json_array();
  bool is_text = true;
  for (const SpawnApp& app : apps) {
    if (app.argv.empty() || app.count < 1) {
      json_decref(programs);
      return function(PMIX_ERR_JOB_NO_EXE_SPECIFIED, nullptr, data);
    }
    is_text = is_text && json_array_append_new(programs, program_of(app, job, directory)) == 0;
  }
  const Namespace* space = clients_.find_namespace(id.nspace);
  const std::uint32_t task = id.nspace == clients_.home() || space == nullptr ? id.rank : space->task;
  const std::uint64_t number = ++requests_;
  replies_[number] = {id, function, data};
  Arguments args(flux_plugin_arg_create());
  int packed = flux_plugin_arg_pack(args.get(), FLUX_PLUGIN_ARG_IN, "{s:I s:s s:I s:I s:o}", "request",
                                    static_cast<json_int_t>(number), "nspace", id.nspace, "rank",
                                    static_cast<json_int_t>(id.rank), "task", static_cast<json_int_t>(task),
                                    "programs", programs);
  if (!is_text || packed < 0) return answer(number, "", EINVAL, "an argument or a variable is no UTF-8");
  // The request may be answered before this returns.
  int called = flux_shell_plugstack_call(shell_, "pmi.spawn", args.get());
  int taken = 0;
  if (called < 0) return answer(number, "", EINVAL, "the request is refused");
  flux_plugin_arg_unpack(args.get(), FLUX_PLUGIN_ARG_OUT, "{s?b}", "taken", &taken);
  if (taken == 0) answer(number, "", ENOSYS, "the builtin plugin pmi, which starts processes, is not loaded");
}

void Spawns::answer(std::uint64_t request, const std::string& nspace, int error, const char* why) {
  auto asked = replies_.extract(request);
  if (!asked) return;
  const Reply& reply = asked.mapped();
  if (error == 0) {
    pmix_nspace_t name{};
    nspace.copy(name, PMIX_MAX_NSLEN);
    return reply.function(PMIX_SUCCESS, name, reply.data);
  }
  std::string who = "rank " + std::to_string(reply.id.rank);
  if (reply.id.nspace != clients_.home()) who += " of " + std::string(reply.id.nspace);
  shell_log_error("%s: PMIx_Spawn: %s", who.c_str(), why);
  reply.function(status_of(error), nullptr, reply.data);
}

// ---- the processes -------------------------------------------------------------------------

// The name is the same on all shells.
Namespace Spawns::namespace_of(json_t* spawn) const {
  Namespace out;
  JobFacts& facts = out.facts;
  facts = clients_.find_namespace(clients_.home())->facts;
  facts.nspace = clients_.home() + "-spawn-" + std::to_string(number_in(spawn, "number"));
  const char* parent = json_string_value(json_object_get(spawn, "nspace"));
  facts.parent = proc_of(parent != nullptr ? parent : "", static_cast<pmix_rank_t>(number_in(spawn, "rank")));
  facts.global_offset = clients_.processes();
  facts.universe = static_cast<std::uint32_t>(number_in(spawn, "universe"));  // 0: no more than there are processes
  out.task = static_cast<std::uint32_t>(number_in(spawn, "task"));
  facts.nodes.clear();
  facts.app_sizes.clear();
  std::map<std::uint32_t, std::vector<pmix_rank_t>> ranks;
  std::size_t index = 0;
  json_t* each = nullptr;
  json_array_foreach(json_object_get(spawn, "places"), index, each)
      ranks[static_cast<std::uint32_t>(json_integer_value(each))]
          .push_back(static_cast<pmix_rank_t>(index));
  const JobShells& shells = clients_.shells();
  facts.this_node = JobFacts::kNowhere;
  for (auto& [shell, some] : ranks) {
    if (shell == shells.own) facts.this_node = static_cast<std::uint32_t>(facts.nodes.size());
    facts.nodes.push_back({shells.hosts.at(shell), std::move(some), shell});
  }
  pmix_rank_t first = 0;
  json_array_foreach(json_object_get(spawn, "programs"), index, each) {
    auto size = static_cast<std::uint32_t>(number_in(each, "processes"));
    facts.app_sizes.push_back(size);
    const char* name = json_string_value(json_object_get(each, "name"));
    for (pmix_rank_t rank : facts.here().ranks) {
      if (rank >= first && rank - first < size) out.clients[rank].command = name != nullptr ? name : "";
    }
    first += size;
  }
  return out;
}

std::string Spawns::add(Namespace space, json_t* environments) {
  const JobFacts& facts = space.facts;
  const std::string name = facts.nspace;
  peers_->add(facts);
  std::string why = server_.add_job(facts);
  for (pmix_rank_t rank : facts.here().ranks) {
    std::vector<std::pair<std::string, std::string>> variables;
    if (why.empty()) why = server_.environment(proc_of(name, rank), variables);
    json_t* object = json_object();
    for (const auto& [key, value] : variables) json_object_set_new(object, key.c_str(), json_string(value.c_str()));
    json_array_append_new(environments, object);
  }
  clients_.add(std::move(space));
  return why;
}

int Spawns::begins(flux_plugin_arg_t* args) {
  json_t* spawn = nullptr;
  if (!server_.runs() || peers_ == nullptr || flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "o", &spawn) < 0)
    return 0;
  Namespace space = namespace_of(spawn);
  namespaces_[number_of(spawn)] = space.facts.nspace;
  json_t* environments = json_array();
  std::string why = add(std::move(space), environments);
  if (why.empty())
    return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:{s:o}}", "pmix", "environments", environments);
  json_decref(environments);
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:{s:s}}", "pmix", "error", why.c_str());
}

Spawns::Number Spawns::number_of(json_t* spawn) {
  json_int_t start = json_object_get(spawn, "start") != nullptr ? number_in(spawn, "start") : 1;
  return {static_cast<std::uint64_t>(start), static_cast<std::uint64_t>(number_in(spawn, "number"))};
}

Namespace* Spawns::find(json_t* spawn) {
  auto name = namespaces_.find(number_of(spawn));
  return name != namespaces_.end() ? clients_.find_namespace(name->second) : nullptr;
}

void Spawns::started(flux_plugin_arg_t* args) {
  json_t* spawn = nullptr;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "o", &spawn) < 0) return;
  Namespace* space = find(spawn);
  if (space == nullptr) return;
  std::size_t index = 0;
  json_t* each = nullptr;
  json_array_foreach(json_object_get(spawn, "processes"), index, each) {
    PmixClient& client = space->clients[static_cast<pmix_rank_t>(number_in(each, "rank"))];
    client.pid = static_cast<pid_t>(number_in(each, "pid"));
    client.started = true;
    ++space->running;
  }
}

void Spawns::exited(flux_plugin_arg_t* args) {
  json_t* spawn = nullptr;
  json_int_t rank = 0;
  int wait_status = 0, ending = 0;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "o", &spawn) < 0 ||
      flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:I s:i s:b}", "rank", &rank, "wait_status", &wait_status,
                             "ending", &ending) < 0)
    return;
  Namespace* space = find(spawn);
  if (space == nullptr) return;
  if (ending != 0) job_.is_ending = true;
  pmix_proc_t id = proc_of(space->facts.nspace, static_cast<pmix_rank_t>(rank));
  PmixClient& client = space->clients[id.rank];
  bool known = space->cancelled || job_.is_ending;
  ends_.ended(id, client, wait_status);
  bool reported =
      client.state == PmixClient::State::connected || client.state == PmixClient::State::aborted;  // by ended()
  if (!known && !reported && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0) {
    shell_warn("%s, which was spawned, exited with code %d", clients_.name_of(id, client).c_str(),
               WEXITSTATUS(wait_status));
  }
  client.pid = 0;
  if (space->running > 0 && --space->running == 0) peers_->namespace_ended(id.nspace);
}

void Spawns::settled(flux_plugin_arg_t* args) {
  json_t* spawn = nullptr;
  json_int_t request = 0;
  int error = 0;
  const char* why = "";
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "o", &spawn) < 0 ||
      flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s?I s?s s?i}", "request", &request, "error", &why,
                             "errnum", &error) < 0)
    return;
  Namespace* space = find(spawn);
  if (request > 0) {
    const std::string nspace = space != nullptr ? space->facts.nspace : "";
    return answer(static_cast<std::uint64_t>(request), nspace, error, why);
  }
  if (space == nullptr) return;
  space->cancelled = space->cancelled || error != 0;
  if (peers_ != nullptr) peers_->settled(space->facts.nspace, error == 0);
}

// ---- the end -------------------------------------------------------------------------------

void Spawns::cancel(int signum) {
  for (const auto& [number, name] : namespaces_) {
    clients_.find_namespace(name)->cancelled = true;
    signal_all(clients_.targets_of(proc_of(name, PMIX_RANK_WILDCARD), {}), signum);
  }
}

// libpmix waits for all answers.
void Spawns::end() {
  for (const auto& [number, reply] : std::exchange(replies_, {}))
    reply.function(PMIX_ERR_JOB_CANCELED, nullptr, reply.data);
  namespaces_.clear();
  peers_ = nullptr;
}

}  // namespace nacre::pmix
