// SPDX-License-Identifier: Apache-2.0
//
// What the plugins mem-affinity, gpu-affinity and nic-affinity do with a plan, by whichever plugin it was made.
#include "plugins/affinity/affinity.hpp"

#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"
#include "task/cpus.hpp"

using namespace nacre;
using plugins::AffinityPlan;
using plugins::PlacedTask;

namespace {

// Answers affinity.plan in cpu-affinity's place.
class Planner final : public plugin::Plugin {
 public:
  explicit Planner(Json plan) : Plugin("planner"), plan_(std::move(plan)) {
    on("affinity.plan", [this](plugin::Call& call) {
      ++asked;
      call.out = plan_;
      return Result<void>();
    });
  }

  int asked = 0;

 private:
  Json plan_;
};

AffinityPlan plan_of_two() {
  AffinityPlan out;
  out.placement.tasks = {{{}, "c0", value::Idset::range(0, 0), "m0", {1}, "g0", {"mlx5_0:1"}, "n0"},
                         {{}, "c1", value::Idset::range(0, 1), "m1", {0, 2}, "g1", {"eth0", "eth1"}, "n1"}};
  return out;
}

std::string resources_with_gpus(const std::string& gpus) {
  return R"({"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0-1","gpu":")" + gpus +
         R"("}}],"nodelist":["fake0"],"starttime":0,"expiration":0}})";
}

// Two tasks, with these options and this plan; null: no plugin makes one.
struct Placed {
  Placed(const std::map<std::string, std::string>& options, Json plan)
      : host(kit::jobspec_of(2), resources_with_gpus("0-2")) {
    for (const auto& [name, value] : options) host.options().set(name, value);
    if (!plan.is_null()) {
      auto made = std::make_unique<Planner>(std::move(plan));
      planner = made.get();
      host.stack().push(std::move(made));
    }
    host.stack().push(plugins::make_mem_affinity(host));
    host.stack().push(plugins::make_gpu_affinity(host));
    host.stack().push(plugins::make_nic_affinity(host));
    host.make_tasks();
    Result<int> called = host.call("shell.init");
    if (!called) error = called.error().message;
    for (std::size_t i = 0; called && i < 2; ++i) called = host.call_task("task.init", i);
  }

  task::Command& command(std::size_t task) { return host.tasks()[task]->command(); }

  kit::FakeHost host;
  Planner* planner = nullptr;
  std::string error;
};

}  // namespace

TEST_CASE("mem-affinity sets the policy of the plan, which is asked for once; the reason is noted") {
  Placed placed({{"mem-affinity", "interleave"}}, to_json(plan_of_two()));
  CHECK(placed.error.empty());
  REQUIRE(placed.command(1).setup.memory);
  CHECK(task::memory_policy_text(*placed.command(0).setup.memory) == "interleave 0");
  CHECK(task::memory_policy_text(*placed.command(1).setup.memory) == "interleave 0-1");
  CHECK(placed.command(1).notes == std::vector<std::string>{"memory  m1"});
  CHECK(placed.planner->asked == 1);
}

TEST_CASE("a plan that is a dry run binds no memory") {
  AffinityPlan plan = plan_of_two();
  plan.is_dry_run = true;
  Placed placed({{"mem-affinity", "bind"}}, to_json(plan));
  CHECK_FALSE(placed.command(0).setup.memory);
  CHECK(placed.command(0).notes == std::vector<std::string>{"memory  m0"});
}

TEST_CASE("gpu-affinity=closest shows the gpus of the plan, and nic-affinity=closest names its cards") {
  Placed placed({{"gpu-affinity", "closest"}, {"nic-affinity", "closest"}}, to_json(plan_of_two()));
  CHECK(placed.error.empty());
  CHECK(placed.command(0).env.get("CUDA_VISIBLE_DEVICES") == "1");
  CHECK(placed.command(1).env.get("HIP_VISIBLE_DEVICES") == "0,2");
  CHECK(placed.command(0).env.get("NACRE_NICS") == "mlx5_0:1");
  CHECK(placed.command(1).env.get("NACRE_NICS") == "eth0,eth1");
  CHECK(placed.command(1).notes == std::vector<std::string>{"gpus    g1", "nics    n1"});
  Placed dry({{"gpu-affinity", "dry-run,closest"}}, to_json(plan_of_two()));
  CHECK_FALSE(dry.command(0).env.get("CUDA_VISIBLE_DEVICES"));
  CHECK(dry.command(0).notes == std::vector<std::string>{"gpus    g0"});
}

TEST_CASE(
    "gpu-affinity=prefer-closest shows the gpus of the plan; without one each task's part of them, by number") {
  Placed placed({{"gpu-affinity", "prefer-closest"}}, to_json(plan_of_two()));
  CHECK(placed.error.empty());
  CHECK(placed.command(0).env.get("CUDA_VISIBLE_DEVICES") == "1");
  CHECK(placed.command(1).env.get("CUDA_VISIBLE_DEVICES") == "0,2");
  CHECK(placed.command(1).notes == std::vector<std::string>{"gpus    g1"});
  Placed without({{"gpu-affinity", "prefer-closest"}}, nullptr);
  CHECK(without.error.empty());
  CHECK(without.command(0).env.get("CUDA_VISIBLE_DEVICES") == "0");
  CHECK(without.command(1).env.get("CUDA_VISIBLE_DEVICES") == "1,2");
  CHECK(without.command(1).notes.empty());
}

TEST_CASE("without options nobody asks for a plan") {
  Placed placed({{"mem-affinity", "off"}, {"nic-affinity", "off"}, {"gpu-affinity", "per-task"}},
                to_json(plan_of_two()));
  CHECK(placed.error.empty());
  CHECK(placed.planner->asked == 0);
  CHECK_FALSE(placed.command(0).setup.memory);
  CHECK_FALSE(placed.command(0).env.get("NACRE_NICS"));
}

TEST_CASE("no plan, or a wrong one, is an error that names the option or the place") {
  CHECK(
      Placed({{"mem-affinity", "bind"}}, nullptr).error ==
      "plugin 'mem-affinity': shell.init: mem-affinity: no plugin answers to affinity.plan, as the builtin plugin "
      "cpu-affinity does");
  Json plan = to_json(plan_of_two());
  plan["tasks"].erase(0);
  CHECK(Placed({{"nic-affinity", "closest"}}, plan).error.ends_with("affinity.plan: it has 1 tasks, not 2"));
  plan = to_json(plan_of_two());
  plan["tasks"][1]["memory"] = 7;
  CHECK(Placed({{"mem-affinity", "bind"}}, plan).error.find("affinity.plan.tasks[1].memory: expected") !=
        std::string::npos);
}
