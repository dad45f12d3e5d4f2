// SPDX-License-Identifier: Apache-2.0
#include "served.hpp"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <regex>

#include <nlohmann/json.hpp>

#include "plugins/builtins.hpp"

namespace nacre::pmix {
namespace {

std::string text_of(const pmix_proc_t& proc) { return fmt::format("{}.{}", proc.nspace, proc.rank); }

// Processes have numbers that no test knows.
std::string without_pid(const std::string& text) {
  return std::regex_replace(text, std::regex(R"( \(process \d+\))"), "");
}

}  // namespace

// ---- the server ----------------------------------------------------------------------------

std::string FakeServer::error_of(const std::string& function) const {
  auto found = errors.find(function);
  return found != errors.end() ? found->second : "";
}

std::string FakeServer::start(const ServerFacts& with) {
  facts = with;
  calls.emplace_back("start");
  std::string why = error_of("start");
  runs_ = why.empty();
  return why;
}

void FakeServer::stop() {
  calls.emplace_back("stop");
  runs_ = false;
}

void FakeServer::abandon() {
  calls.emplace_back("abandon");
  runs_ = false;
}

std::string FakeServer::add_job(const JobFacts& with) {
  calls.push_back("add_job " + with.nspace);
  jobs.push_back(with);
  return error_of("add_job");
}

std::string FakeServer::environment(const pmix_proc_t& proc,
                                    std::vector<std::pair<std::string, std::string>>& variables) {
  variables.emplace_back("PMIX_NAMESPACE", proc.nspace);
  variables.emplace_back("PMIX_RANK", std::to_string(proc.rank));
  return error_of("environment");
}

void FakeServer::count_again(const std::string& nspace, int processes) {
  calls.push_back(fmt::format("count_again {} {}", nspace, processes));
}

std::string FakeServer::add_process(const pmix_proc_t& proc) {
  calls.push_back("add_process " + text_of(proc));
  return error_of("add_process");
}

void FakeServer::forget(const pmix_proc_t& proc) { calls.push_back("forget " + text_of(proc)); }

void FakeServer::notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t /*range*/,
                        InfoList about) {
  const pmix_value_t* exit_code = about.find(PMIX_EXIT_CODE);
  notices.push_back({code, source.rank, exit_code != nullptr ? number_of(*exit_code).value_or(-1) : -1});
}

void FakeServer::find_modex(const pmix_proc_t& proc, std::uintptr_t question) {
  calls.push_back(fmt::format("find_modex {} {}", text_of(proc), question));
}

void FakeServer::look_up_key(const pmix_proc_t& proc, const std::string& key, std::uintptr_t question) {
  calls.push_back(fmt::format("look_up_key {} {} {}", text_of(proc), key, question));
}

void FakeServer::add_resources(InfoList resources, InfoReply reply, InfoList results) {
  calls.push_back(fmt::format("add_resources {}", resources.size()));
  answer(reply, PMIX_SUCCESS, std::move(results));
}

void FakeServer::define_set(const std::string& name, const std::vector<pmix_proc_t>& members) {
  std::string call = "define_set " + name;
  for (const pmix_proc_t& each : members) call += " " + text_of(each);
  calls.push_back(std::move(call));
}

// ---- answers -------------------------------------------------------------------------------

void Answers::info(pmix_status_t status, pmix_info_t* /*info*/, std::size_t /*ninfo*/, void* data,
                   pmix_release_cbfunc_t release, void* kept) {
  static_cast<Answers*>(data)->statuses.push_back(status);
  release(kept);
}

void Answers::spawned(pmix_status_t status, char* nspace, void* data) {
  auto& answers = *static_cast<Answers*>(data);
  answers.statuses.push_back(status);
  answers.nspace = nspace != nullptr ? nspace : "";
}

// ---- the service ---------------------------------------------------------------------------

Served::Served(std::uint32_t tasks, const Json& options, std::uint32_t nodes, Service::Times times)
    : host(kit::jobspec_of(tasks * nodes), kit::fake_nodes(nodes, tasks)) {
  host.environment().set("PATH", "/usr/bin:/bin");
  host.environment().set("FLUX_JOB_TMPDIR", directory);
  for (const auto& [name, value] : options.items()) host.options().set(name, value);
  announced = host.on_announcement([this](std::string_view, std::string_view bytes) { said.emplace_back(bytes); });
  auto made_plugin =
      std::make_unique<flux_plugin>(capi::ShellRef::of(host).value(), directory + "/pmix.so", RTLD_NOW);
  plugin = made_plugin.get();
  host.stack().push(std::move(made_plugin));
  auto name = [](flux_plugin_t*, const char*, flux_plugin_arg_t* args, void*) {
    return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s}", "namespace", "nacre-1");
  };
  flux_plugin_add_handler(plugin, "pmi.namespace", name, nullptr);
  auto fake = std::make_unique<FakeServer>();
  server = fake.get();
  service = std::make_unique<Service>(plugin, plugin->shell.get(), std::move(fake), times);
}

Served::~Served() { service.reset(); }

void Served::start() {
  REQUIRE(service->start() == 0);
  start_tasks();
}

namespace {

template <int (Spawns::*handler)(flux_plugin_arg_t*)>
int pass_on(flux_plugin_t* /*plugin*/, const char* /*topic*/, flux_plugin_arg_t* args, void* spawns) {
  return (static_cast<Spawns*>(spawns)->*handler)(args);
}

template <void (Spawns::*handler)(flux_plugin_arg_t*)>
int pass_on(flux_plugin_t* /*plugin*/, const char* /*topic*/, flux_plugin_arg_t* args, void* spawns) {
  (static_cast<Spawns*>(spawns)->*handler)(args);
  return 0;
}

}  // namespace

void Served::listen() {
  host.options().set("pmi", "pmix");
  host.stack().push(plugins::make_pmi(host));
  plugin::Call init("shell.init");
  REQUIRE(host.stack().call(init));
  auto over = [](flux_plugin_t*, const char*, flux_plugin_arg_t*, void* arg) {
    static_cast<Service*>(arg)->spawns_over();
    return 0;
  };
  flux_plugin_add_handler(plugin, "pmi.spawn-begins", pass_on<&Spawns::begins>, &service->spawns());
  flux_plugin_add_handler(plugin, "pmi.spawn-started", pass_on<&Spawns::started>, &service->spawns());
  flux_plugin_add_handler(plugin, "pmi.spawn-exited", pass_on<&Spawns::exited>, &service->spawns());
  flux_plugin_add_handler(plugin, "pmi.spawn-settled", pass_on<&Spawns::settled>, &service->spawns());
  flux_plugin_add_handler(plugin, "pmi.spawns-over", over, service.get());
}

Json Served::call(int (Spawns::*handler)(flux_plugin_arg_t*), const Json& in) {
  flux_plugin_arg_t* args = flux_plugin_arg_create();
  REQUIRE(flux_plugin_arg_set(args, FLUX_PLUGIN_ARG_IN, in.dump().c_str()) == 0);
  CHECK((service->spawns().*handler)(args) == 0);
  char* out = nullptr;
  Json result;
  if (flux_plugin_arg_get(args, FLUX_PLUGIN_ARG_OUT, &out) == 0) result = Json::parse(out);
  ::free(out);
  flux_plugin_arg_destroy(args);
  return result;
}

void Served::call(void (Spawns::*handler)(flux_plugin_arg_t*), const Json& in) {
  flux_plugin_arg_t* args = flux_plugin_arg_create();
  REQUIRE(flux_plugin_arg_set(args, FLUX_PLUGIN_ARG_IN, in.dump().c_str()) == 0);
  (service->spawns().*handler)(args);
  flux_plugin_arg_destroy(args);
}

void Served::start_tasks() {
  host.start_tasks(pids);
  for (const auto& task : host.tasks()) {
    REQUIRE(service->prepare_task(capi::handle(task.get())) == 0);
    REQUIRE(service->task_started(capi::handle(task.get())) == 0);
  }
}

pmix_status_t Served::post_connected(pmix_rank_t rank) {
  pmix_proc_t who = proc_of("nacre-1", rank);
  return server_module().client_connected2(&who, nullptr, nullptr, 0, Answers::op, &answers);
}

pmix_status_t Served::post_finalized(pmix_rank_t rank) {
  pmix_proc_t who = proc_of("nacre-1", rank);
  return server_module().client_finalized(&who, nullptr, Answers::op, &answers);
}

pmix_status_t Served::post_abort(pmix_rank_t rank, int status, const char* message,
                                 const std::vector<pmix_rank_t>& whom) {
  pmix_proc_t who = proc_of("nacre-1", rank);
  std::vector<pmix_proc_t> targets;
  for (pmix_rank_t each : whom) targets.push_back(proc_of("nacre-1", each));
  return server_module().abort(&who, nullptr, status, message, targets.data(), targets.size(), Answers::op,
                               &answers);
}

void Served::end(std::size_t local_id, const value::WaitStatus& status) {
  task::Task* task = host.tasks()[local_id].get();
  task->exited(status, {});
  REQUIRE(service->task_ended(capi::handle(task)) == 0);
}

std::vector<std::string> Served::raised() const {
  std::vector<std::string> out;
  for (const plugin::RaisedException& each : host.exceptions) {
    CHECK(each.severity == 0);
    REQUIRE(each.status);
    out.push_back(fmt::format("{}: {}", each.status->job_code(), without_pid(each.message)));
  }
  return out;
}

std::vector<std::string> Served::logged(std::string_view level) const {
  std::vector<std::string> out;
  std::string start = fmt::format("{} pmix: ", level);
  for (const std::string& text : host.logged) {
    if (text.starts_with(start)) out.push_back(without_pid(text.substr(start.size())));
  }
  return out;
}

}  // namespace nacre::pmix
