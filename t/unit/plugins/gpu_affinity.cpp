// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

std::string gpu_resources(const std::string& gpus) {
  return fmt::format(R"({{"version":1,"execution":{{"R_lite":[{{"rank":"0","children":{{"core":"0"{}}}}}],
    "nodelist":["fake0"],"starttime":0,"expiration":0}}}})",
                     gpus.empty() ? "" : R"(,"gpu":")" + gpus + '"');
}

std::string gpu_jobspec(unsigned tasks) {
  return fmt::format(R"({{"version":1,"resources":[{{"type":"slot","count":1,"label":"task",
    "with":[{{"type":"core","count":1}}]}}],"tasks":[{{"command":["true"],"slot":"task","count":{{"total":{}}}}}],
    "attributes":{{"system":{{"duration":0}}}}}})",
                     tasks);
}

using Texts = std::vector<std::string>;

// Tasks of a job with these gpus, with this option; null: not set.
struct Showing {
  Showing(unsigned tasks, const std::string& gpus, const Json& option = nullptr)
      : host(gpu_jobspec(tasks), gpu_resources(gpus)) {
    for (const char* name :
         {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
      host.environment().set(name, "before");
    }
    if (!option.is_null()) host.options().set("gpu-affinity", option);
    host.stack().push(plugins::make_gpu_affinity(host));
    host.make_tasks();
    Result<int> called = host.call("shell.init");
    if (!called) error = called.error().message;
    for (std::size_t i = 0; called && i < host.tasks().size(); ++i) called = host.call_task("task.init", i);
  }

  // The variable's values in the tasks, in their order; "none" if it is not set.
  Texts in_tasks(std::string_view variable) {
    Texts out;
    for (const auto& task : host.tasks()) out.emplace_back(task->command().env.get(variable).value_or("none"));
    return out;
  }

  kit::FakeHost host;
  std::string error;
};

constexpr const char* kCuda = "CUDA_VISIBLE_DEVICES";

}  // namespace

TEST_CASE("all tasks see all gpus of the job by default") {
  for (const Json& option : {Json(nullptr), Json("on"), Json(1)}) {
    Showing showing(2, "0-3", option);
    for (const char* name : {kCuda, "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
      CHECK(showing.in_tasks(name) == Texts{"0,1,2,3", "0,1,2,3"});
      CHECK(showing.host.environment().get(name) == "0,1,2,3");
    }
    CHECK(showing.host.environment().get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID");
    CHECK(showing.in_tasks("ROCR_VISIBLE_DEVICES") == Texts{"none", "none"});
  }
}

TEST_CASE("a job without gpus sees none, whatever was set before") {
  for (const Json& option : {Json(nullptr), Json("per-task")}) {
    Showing showing(1, "", option);
    CHECK(showing.in_tasks(kCuda) == Texts{"-1"});
    CHECK(showing.in_tasks("HIP_VISIBLE_DEVICES") == Texts{"-1"});
    CHECK(showing.in_tasks("ZE_AFFINITY_MASK") == Texts{"none"});
  }
}

TEST_CASE("per-task divides the gpus") {
  Showing showing(2, "0-3", "per-task");
  for (const char* name : {kCuda, "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
    CHECK(showing.in_tasks(name) == Texts{"0,1", "2,3"});
  }
  CHECK(Showing(2, "1,4-5", "per-task").in_tasks(kCuda) == Texts{"1", "4,5"});
  CHECK(Showing(1, "0-1", "per-task").in_tasks(kCuda) == Texts{"0,1"});
}

TEST_CASE("more tasks than gpus share them evenly") {
  CHECK(Showing(5, "2,6", "per-task").in_tasks(kCuda) == Texts{"2", "2", "2", "6", "6"});
}

TEST_CASE("a map names gpus, the job's or not, and starts anew for more tasks") {
  CHECK(Showing(2, "0-3", "map:7;4-6").in_tasks(kCuda) == Texts{"7", "4,5,6"});
  CHECK(Showing(3, "0-3", "map:1;0").in_tasks(kCuda) == Texts{"1", "0", "1"});
  CHECK(Showing(1, "", "map:0x5").in_tasks(kCuda) == Texts{"0,2"});
}

TEST_CASE("off leaves the environment as it is") {
  for (const Json& option : {Json("off"), Json(0), Json(false)}) {
    Showing showing(1, "0-3", option);
    for (const char* name : {kCuda, "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
      CHECK(showing.in_tasks(name) == Texts{"before"});
    }
    CHECK_FALSE(showing.host.environment().get("CUDA_DEVICE_ORDER"));
  }
}

TEST_CASE("verbose tells the gpus, and dry-run sets nothing") {
  Showing on(1, "0-1", "verbose");
  CHECK(on.host.logged == Texts{"notice gpu-affinity: gpus: 0,1"});
  CHECK(on.in_tasks(kCuda) == Texts{"0,1"});
  Showing dry(2, "0-1", "dry-run,per-task");
  CHECK(dry.host.logged == Texts{"notice gpu-affinity: gpus: 0,1", "notice gpu-affinity: task 0: gpus: 0",
                                 "notice gpu-affinity: task 1: gpus: 1"});
  CHECK(dry.in_tasks(kCuda) == Texts{"before", "before"});
  CHECK(Showing(1, "", "verbose").host.logged == Texts{"notice gpu-affinity: gpus: none"});
}

TEST_CASE("an option that gpu-affinity does not know is an error") {
  std::string start = "plugin 'gpu-affinity': shell.init: gpu-affinity: ";
  CHECK(Showing(1, "0", Json::array({1}))
            .error.starts_with(start + "expected on, off, per-task, closest, prefer-closest or map:LIST"));
  CHECK(Showing(1, "0", "all")
            .error.starts_with(start + "expected on, off, per-task, closest, prefer-closest or map:LIST"));
  CHECK(Showing(1, "0", "map:0;").error.starts_with(start + "map: '': "));
  CHECK(Showing(1, "0", "map:2-").error == start + "map: a list of gpus needs an end, as in 4-7");
}
