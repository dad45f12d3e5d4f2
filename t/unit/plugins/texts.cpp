// SPDX-License-Identifier: Apache-2.0
//
// The bytes of messages between plugins of different shells.
#include "catch.hpp"

#include "plugins/affinity/affinity.hpp"
#include "plugins/affinity/hwloc.hpp"
#include "plugins/control/questions.hpp"
#include "plugins/doctor/stack_taker.hpp"
#include "plugins/usage/meter.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT

TEST_CASE("the texts of processes and places of tasks") {
  TaskProcess process{3, 100, "S", 1.5, 0.25, 4096, "a.out"};
  CHECK(dump_json(process.json()) == R"([3,100,"S",1.5,0.25,4096,"a.out"])");
  CHECK(TaskProcess::parse(process.json()).value().json() == process.json());
  process.gpu = usage::TaskGpu{1024, {}};
  CHECK(dump_json(process.json()) == R"([3,100,"S",1.5,0.25,4096,"a.out",1024,null])");
  CHECK(TaskProcess::parse(process.json()).value().json() == process.json());
  process.gpu.reset();
  process.origin = SpawnOrigin{1, 2, 0};
  CHECK(dump_json(process.json()) == R"([3,100,"S",1.5,0.25,4096,"a.out",[1,2,0]])");
  CHECK(TaskProcess::parse(process.json()).value().json() == process.json());
  CHECK_FALSE(TaskProcess::parse(Json::array({1, 2})));

  TaskPlace place;
  place.rank = 4;
  place.pid = 9;
  place.cpus = {"0-3", "a core each"};
  place.memory = {"bind 0", "near"};
  place.gpus = {"0", "closest"};
  place.nics = {"mlx5_0:1", "near"};
  place.cpus_now = "0-3";
  place.unset = "dry-run";
  place.executable = "/bin/a";
  CHECK(dump_json(place.json()) ==
        R"([4,9,["0-3","a core each"],["bind 0","near"],["0","closest"],["mlx5_0:1","near"],"0-3","dry-run",)"
        R"("/bin/a"])");
  CHECK(TaskPlace::parse(place.json()).value() == place);
  Json wrong = place.json();
  wrong[3] = Json::array({"x"});
  CHECK(TaskPlace::parse(wrong).error().message == "[3]: expected where and why, got an array");
  wrong.erase(7);
  CHECK_FALSE(TaskPlace::parse(wrong));
}

TEST_CASE("the texts of a node's topology, and of where tasks are planned to run") {
  using value::Idset;
  NodeTopology node;
  node.cpus.cores = {Idset::range(0, 1), Idset::range(2, 3)};
  node.cpus.l3s = node.cpus.packages = {Idset::range(0, 3)};
  node.cpus.numas = {{1, Idset::range(0, 3), false}};
  node.gpus = {{"g", "0000:07:00.0", Idset::range(0, 1), {1, 2}}};
  CHECK(dump_json(to_json(node)) ==
        R"({"cores":["0-1","2-3"],"gpus":[{"bridges":[1,2],"bus":"0000:07:00.0","cpus":"0-1","name":"g"}],)"
        R"("l3s":["0-3"],"nics":[],"numas":[{"cpus":"0-3","id":1,"memory":false}],"packages":["0-3"]})");
  auto read = [](const Json& json) {
    auto out = node_topology_of(JsonAt::root(json));
    return out ? dump_json(to_json(*out)) : out.error().message;
  };
  CHECK(read(to_json(node)) == dump_json(to_json(node)));
  CHECK(read({{"cores", {"0"}}}) == R"({"cores":["0"],"gpus":[],"l3s":[],"nics":[],"numas":[],"packages":[]})");
  CHECK(read({{"cores", Json::array()}}) == "cores: it has no cores");
  CHECK(read({{"cores", {"x"}}}).starts_with("cores[0]: "));

  AffinityPlan plan;
  plan.placement.tasks = {
      {Idset::range(0, 1), "a core", Idset::range(1, 1), "near", {2}, "closest", {"mlx"}, "too"}};
  plan.placement.unused = Idset::range(3, 3);
  CHECK(dump_json(to_json(plan)) ==
        R"({"dry-run":false,"tasks":[{"cpus":"0-1","gpus":[2],"memory":"1","nics":["mlx"],)"
        R"("why":{"cpus":"a core","gpus":"closest","memory":"near","nics":"too"}}],"unused":"3"})");
}

TEST_CASE("the texts of what is asked of other shells") {
  CHECK(dump_json(ExaminationOrder().json()) ==
        R"({"by-rank":false,"interval":1.0,"only-silence":false,"stacks":"none"})");
  ExaminationOrder order{2.5, true, StackWay::gdb, true};
  CHECK(dump_json(order.json()) == R"({"by-rank":true,"interval":2.5,"only-silence":true,"stacks":"gdb"})");
  CHECK(ExaminationOrder::parse(order.json()).value().json() == order.json());
  CHECK(ExaminationOrder::parse(Json::object()).value().json() == ExaminationOrder().json());
  auto why = [](const Json& json) {
    auto read = ExaminationOrder::parse(json);
    return read ? "fine" : read.error().message;
  };
  CHECK(why({{"interval", 61}}) == "interval: expected 0.05 to 60 seconds, got 61");
  CHECK(why({{"stacks", "x"}}) == R"(stacks: expected one of none, auto, eu-stack, gdb, py-spy, got "x")");
  std::map<std::uint32_t, usage::TaskGpu> gpus{{1, {1024, 0.5}}, {3, {}}};
  CHECK(dump_json(wire_of_gpus(gpus)) == "[[1,1024,0.5],[3,null,null]]");
  CHECK(wire_of_gpus(gpus_from(wire_of_gpus(gpus)).value()) == wire_of_gpus(gpus));
  CHECK(gpus_from(Json::parse("[[1,2]]")).error().message == "[0]: expected rank, memory and use, got an array");
}
