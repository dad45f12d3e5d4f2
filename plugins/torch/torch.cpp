// SPDX-License-Identifier: Apache-2.0
//
// torch: the variables that torchrun gives to what it starts (PyTorch's page "torchrun (Elastic Launch)", and
// torch.distributed with its method env://), one task being one process of the group.
//
//   torch                     processes find each other by a store
//   torch.port=PORT           at this port
//   torch.store=shells|rank0  each shell serves it on its node's loopback, by default at a free port; or rank 0
//                             does, by default at a port by the job id
//
// The default is `shells` if all tasks are on one host: otherwise programs may take MASTER_ADDR for a host that
// processes on other hosts can reach.
//
// Frameworks read them as well: with TORCHELASTIC_RUN_ID Lightning does not take the manager's variables, which are
// those of a shell and not of a task. torchrun does not set NODE_RANK, but other programs read it. Programs choose
// their gpu by LOCAL_RANK, so it is below the number of gpus that the task sees, if it sees some.

#include "job/options.hpp"
#include "plugins/builtins.hpp"
#include "plugins/torch/store.hpp"

namespace nacre::plugins {
namespace {

constexpr std::uint64_t kFirstPort = 20000;
constexpr std::uint64_t kPorts = 10000;
constexpr std::int64_t kLastPort = 65535;

// How many gpus the variables of a task show; none: the variables do not limit them.
std::optional<std::uint64_t> visible_gpus(const job::Environment& environment) {
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
    auto list = environment.get(name);
    if (!list || list->empty() || *list == "-1") continue;
    return static_cast<std::uint64_t>(std::count(list->begin(), list->end(), ',')) + 1;
  }
  return std::nullopt;
}

// All tasks of the job are on one host.
bool is_on_one_host(const job::Job& job) {
  const auto& nodes = job.resources.nodes;
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](const auto& each) { return each.hostname == nodes[0].hostname; });
}

class Torch final : public plugin::Plugin {
 public:
  explicit Torch(plugin::Host& host) : Plugin("torch"), host_(host) {
    // Not earlier: only now is the taskmap final.
    on("shell.init", [this] { return initialize(); });
    // For tasks that have come; rank 0 may also be on another host now.
    on("shell.take-over", [this] { return initialize(); });
    on("shell.restart", [this](plugin::Call& call) -> Result<void> {
      if (!is_on_ || !call.in.value("all", false)) return {};
      CHECK_OK(initialize());  // rank 0 may have gone to another host
      if (store_) store_->begin_again(host_.job().restarts);
      return {};
    });
    on("task.init", [this] {
      if (is_on_) number(*host_.current_task());
    });
  }

 private:
  Result<void> initialize() {
    auto option = host_.options().at(name());
    if (!option) return {};
    is_on_ = option->json().is_object() || TRY(host_.options().flag(name()));
    if (!is_on_) return {};
    if (option->json().is_object()) CHECK_OK(option->only_keys({"port", "store"}));
    CHECK_OK(find_store());
    const job::Job& job = host_.job();
    std::string node = fmt::format("{}", job.stands_for(job.shell_rank));
    job::Environment& environment = host_.environment();
    for (const char* each : {"WORLD_SIZE", "ROLE_WORLD_SIZE"})
      environment.set(each, fmt::format("{}", job.tasks()));
    environment.set("LOCAL_WORLD_SIZE", fmt::format("{}", job.taskmap.tasks_on(job.shell_rank)));
    environment.set("GROUP_WORLD_SIZE", fmt::format("{}", job.nodes_in_use()));
    environment.set("GROUP_RANK", node);
    environment.set("NODE_RANK", node);
    environment.set("ROLE_NAME", "default");
    environment.set("TORCHELASTIC_RUN_ID", job.id.f58_plain());
    set_unless_set(environment, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    // The option omp-threads of an initrc counts like the variable.
    const bool has_threads = host_.options().json().contains("omp-threads");
    if (shares_cores() && !has_threads) set_unless_set(environment, "OMP_NUM_THREADS", "1");
    job::RestartOption restart = TRY(job::RestartOption::read(host_.options()));
    most_restarts_ = restart.is_on() ? restart.max : 0;
    return {};
  }

  // Where the store is, in the tasks' environment.
  Result<void> find_store() {
    std::optional<std::uint16_t> port;
    if (auto given = host_.options().at("torch.port"))
      port = static_cast<std::uint16_t>(TRY(given->integer(1, kLastPort)));
    const job::Job& job = host_.job();
    const std::string& first = job.resources.nodes[TRY(job.taskmap.node_of(0))].hostname;
    // the nodes of a made-up machine are all here
    const bool is_here = first.empty() || host_.options().find("pretend") != nullptr || is_on_one_host(job);
    bool of_shells = is_here;
    if (auto who = host_.options().at("torch.store")) {
      of_shells = who->json() == "shells";
      if (!of_shells && who->json() != "rank0") return who->expected("shells or rank0");
    }
    job::Environment& environment = host_.environment();
    environment.set("TORCHELASTIC_USE_AGENT_STORE", of_shells ? "True" : "False");
    if (of_shells) {
      if (!store_) CHECK_OK(open_store(port));
      environment.set("MASTER_ADDR", "127.0.0.1");
      environment.set("MASTER_PORT", fmt::format("{}", port ? *port : store_->port()));
      return {};
    }
    environment.set("MASTER_ADDR", is_here ? "127.0.0.1" : first);
    environment.set("MASTER_PORT", fmt::format("{}", port ? *port : kFirstPort + job.id.value() % kPorts));
    return {};
  }

  // If a host has several shells, the first one has the given port, for the tasks of all.
  Result<void> open_store(std::optional<std::uint16_t> port) {
    store_.emplace(host_, *this);
    const job::Job& job = host_.job();
    const auto& nodes = job.resources.nodes;
    auto is_same = [&](std::uint32_t shell) {
      return host_.options().find("pretend") != nullptr || nodes[shell].hostname == nodes[job.shell_rank].hostname;
    };
    bool is_first = true;
    for (std::uint32_t shell = 0; shell < job.shell_rank; ++shell) is_first = is_first && !is_same(shell);
    if (!port || is_first) CHECK_OK(in("torch", store_->listen(port.value_or(0))));
    return host_.joined_late() ? store_->catch_up() : Result<void>();
  }

  static void set_unless_set(job::Environment& environment, const char* name, const char* value) {
    if (!environment.get(name)) environment.set(name, value);
  }

  // As with torchrun, which binds nothing. A task with cores of its own uses those.
  [[nodiscard]] bool shares_cores() const {
    auto affinity = host_.options().value_at("cpu-affinity");
    const bool is_bound =
        affinity && affinity->json().is_string() && affinity->json() != "on" && affinity->json() != "off";
    return host_.job().taskmap.tasks_on(host_.job().shell_rank) > 1 && !is_bound;
  }

  void number(task::Task& task) {
    job::Environment& environment = task.command().env;
    std::uint64_t local = task.local_id();
    if (auto gpus = visible_gpus(environment)) local %= *gpus;
    for (const char* each : {"RANK", "ROLE_RANK"}) environment.set(each, fmt::format("{}", task.rank()));
    environment.set("LOCAL_RANK", fmt::format("{}", local));
    environment.set("TORCHELASTIC_RESTART_COUNT", std::string(environment.get("NACRE_JOB_RESTARTS").value_or("0")));
    environment.set("TORCHELASTIC_MAX_RESTARTS", fmt::format("{}", most_restarts_));
  }

  plugin::Host& host_;
  bool is_on_ = false;
  std::optional<TorchStore> store_;
  std::uint64_t most_restarts_ = 0;  // by the option restart; 0: none
};

}  // namespace

PluginPtr make_torch(plugin::Host& host) { return std::make_unique<Torch>(host); }

}  // namespace nacre::plugins
