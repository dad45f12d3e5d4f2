// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

// Six tasks on three nodes, cyclic over the first two as R has cores; this is the second node.
constexpr const char* kThreeNodes =
    R"({"version": 1, "execution": {"R_lite": [{"rank": "0-2", "children": {"core": "0-1"}}],
  "nodelist": ["n[1-3]"], "starttime": 0, "expiration": 0}})";

struct SlurmJob {
  explicit SlurmJob(const char* job_id, const char* option = nullptr) {
    host.stack().push(plugins::make_slurm_variables(host));
    host.make_tasks();
    if (job_id != nullptr) host.environment().set("SLURM_JOB_ID", job_id);
    host.environment().set("SLURM_NTASKS", "99");  // the allocation's
    if (option != nullptr) host.options().set("slurm-variables", Json::parse(option));
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }
  std::string of_job(const char* name) { return std::string(host.environment().get(name).value_or("none")); }
  std::string of_task(std::size_t task, const char* name) {
    REQUIRE(host.call_task("task.init", task));
    return std::string(host.tasks()[task]->command().env.get(name).value_or("none"));
  }

  kit::FakeHost host{kit::jobspec_of(6), kThreeNodes, 1};
  std::string error;
};

}  // namespace

// The names, and the forms of their values, are those of srun(1), OUTPUT ENVIRONMENT VARIABLES.
TEST_CASE("slurm-variables: in an allocation of Slurm tasks have what srun would give them") {
  SlurmJob job("77");
  CHECK(job.error.empty());
  const std::vector<std::pair<const char*, const char*>> all{
      {"SLURM_NTASKS", "6"},
      {"SLURM_NPROCS", "6"},
      {"SLURM_NTASKS_PER_NODE", "2"},
      {"SLURM_STEP_NUM_TASKS", "6"},
      {"SLURM_STEP_NUM_NODES", "3"},
      {"SLURM_STEP_NODELIST", "n[1-3]"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
      {"SLURM_NODEID", "1"},
      {"SLURM_GTIDS", "2,3"},
      {"SLURM_STEP_ID", "none"},
  };
  for (const auto& [name, value] : all) {
    INFO(name);
    CHECK(job.of_job(name) == value);
  }
  CHECK(job.of_task(1, "SLURM_PROCID") == "3");
  CHECK(job.of_task(1, "SLURM_LOCALID") == "1");
}

TEST_CASE("slurm-variables: elsewhere, or where it is off, nothing is changed; a wrong value is named") {
  SlurmJob elsewhere(nullptr);
  CHECK(elsewhere.of_job("SLURM_NTASKS") == "99");
  CHECK(elsewhere.of_task(0, "SLURM_PROCID") == "none");
  SlurmJob off("77", "false");
  CHECK(off.of_job("SLURM_NTASKS") == "99");
  CHECK(off.of_task(0, "SLURM_PROCID") == "none");
  CHECK(SlurmJob("77", "\"maybe\"").error.find("slurm-variables: ") != std::string::npos);
}
