// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

// Four tasks on one node; shell.init with the option.
struct TorchJob {
  explicit TorchJob(const char* option, const char* gpus = nullptr,
                    const std::function<void(kit::FakeHost&)>& before = {}) {
    if (before) before(host);
    host.stack().push(plugins::make_torch(host));
    host.make_tasks();
    if (gpus != nullptr) host.environment().set("CUDA_VISIBLE_DEVICES", gpus);
    host.options().set("torch", Json::parse(option));
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  std::string of_job(const char* name) { return std::string(host.environment().get(name).value_or("none")); }
  std::string of_task(std::size_t task, const char* name) {
    REQUIRE(host.call_task("task.init", task));
    return std::string(host.tasks()[task]->command().env.get(name).value_or("none"));
  }

  kit::FakeHost host{4};
  std::string error;
};

}  // namespace

TEST_CASE("torch gives each task its place in the group") {
  TorchJob job("1");
  CHECK(job.error.empty());
  CHECK(job.of_job("WORLD_SIZE") == "4");
  CHECK(job.of_job("LOCAL_WORLD_SIZE") == "4");
  CHECK(job.of_job("GROUP_RANK") == "0");
  CHECK(job.of_job("NODE_RANK") == "0");
  CHECK(job.of_job("MASTER_ADDR") == "127.0.0.1");
  CHECK(job.of_job("TORCHELASTIC_USE_AGENT_STORE") == "True");
  CHECK(TorchJob(R"({"store": "rank0"})").of_job("MASTER_PORT") == "20001");
  CHECK(job.of_task(3, "RANK") == "3");
  CHECK(job.of_task(3, "LOCAL_RANK") == "3");
}

// The names are those that torchrun's agent sets for a worker, with their values for a group of one role.
TEST_CASE("torch: a task has all the variables that torchrun gives it") {
  TorchJob job(R"({"store": "rank0"})");
  const std::vector<std::pair<const char*, const char*>> all{{"LOCAL_RANK", "3"},
                                                             {"RANK", "3"},
                                                             {"GROUP_RANK", "0"},
                                                             {"ROLE_RANK", "3"},
                                                             {"ROLE_NAME", "default"},
                                                             {"LOCAL_WORLD_SIZE", "4"},
                                                             {"WORLD_SIZE", "4"},
                                                             {"GROUP_WORLD_SIZE", "1"},
                                                             {"ROLE_WORLD_SIZE", "4"},
                                                             {"MASTER_ADDR", "127.0.0.1"},
                                                             {"MASTER_PORT", "20001"},
                                                             {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                             {"OMP_NUM_THREADS", "1"},
                                                             {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                                             {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                             {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}};
  for (const auto& [name, value] : all) {
    INFO(name);
    CHECK(job.of_task(3, name) == value);
  }
  CHECK(job.of_task(3, "TORCHELASTIC_RUN_ID") == job.host.job().id.f58_plain());
}

TEST_CASE("torch: what the user has set of threads and errors stays; a task with cores of its own uses them") {
  TorchJob bound("1", nullptr, [](kit::FakeHost& host) { host.options().set("cpu-affinity", "per-task"); });
  CHECK(bound.of_job("OMP_NUM_THREADS") == "none");
  TorchJob counted("1", nullptr, [](kit::FakeHost& host) { host.options().set("omp-threads", "4"); });
  CHECK(counted.of_job("OMP_NUM_THREADS") == "none");
  TorchJob own("1", nullptr, [](kit::FakeHost& host) {
    host.environment().set("OMP_NUM_THREADS", "8");
    host.environment().set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0");
  });
  CHECK(own.of_job("OMP_NUM_THREADS") == "8");
  CHECK(own.of_job("TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0");
}

TEST_CASE("torch's LOCAL_RANK fits the gpus that a task sees") {
  CHECK(TorchJob("1", "5").of_task(3, "LOCAL_RANK") == "0");
  CHECK(TorchJob("1", "0,1").of_task(3, "LOCAL_RANK") == "1");
  CHECK(TorchJob("1", "MIG-a,MIG-b,MIG-c,MIG-d").of_task(3, "LOCAL_RANK") == "3");
  CHECK(TorchJob("1", "-1").of_task(3, "LOCAL_RANK") == "3");
}

TEST_CASE("torch.port is taken, and checked; what is off sets nothing") {
  CHECK(TorchJob(R"({"port": 29500, "store": "rank0"})").of_job("MASTER_PORT") == "29500");
  CHECK(TorchJob(R"({"store": "rank1"})").error.find("torch.store: expected shells or rank0") != std::string::npos);
  CHECK(TorchJob(R"({"port": 0})").error.find("torch.port: expected") != std::string::npos);
  CHECK(TorchJob(R"({"prot": 1})").error.find("torch") != std::string::npos);
  TorchJob off("false");
  CHECK(off.of_job("WORLD_SIZE") == "none");
  CHECK(off.of_task(1, "RANK") == "none");
}
