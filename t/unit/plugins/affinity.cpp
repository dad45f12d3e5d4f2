// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/affinity/affinity.hpp"
#include "plugins/affinity/affinity_option.hpp"
#include "plugins/affinity/job_cpus.hpp"
#include "plugins/builtins.hpp"
#include "task/cpus.hpp"

using namespace nacre;
using plugins::AffinityOption;
using plugins::AffinityPlan;
using plugins::parse_affinity_set;
using plugins::PlacedTask;
using plugins::share_of;
using value::Idset;

using Mode = AffinityOption::Mode;

namespace {

AffinityOption read(const Json& value) {
  auto option = AffinityOption::read(JsonAt::root(value, "cpu-affinity"), AffinityOption::Resource::cpus);
  INFO(dump_json(value) << (option ? "" : ": " + option.error().message));
  REQUIRE(option);
  return *option;
}

std::string error(const Json& value) {
  auto option = AffinityOption::read(JsonAt::root(value, "cpu-affinity"), AffinityOption::Resource::cpus);
  INFO(dump_json(value));
  REQUIRE_FALSE(option);
  return option.error().message;
}

std::string normal(std::string_view text) {
  auto parsed = parse_affinity_set(text);
  return parsed ? parsed->str() : parsed.error().message;
}

}  // namespace

TEST_CASE("an affinity option that is not set is on") {
  auto option = AffinityOption::read(std::nullopt, AffinityOption::Resource::cpus);
  REQUIRE(option);
  CHECK(option->mode == Mode::on);
  CHECK_FALSE(option->given);
  CHECK_FALSE(option->verbose);
  CHECK_FALSE(option->dry_run);
}

TEST_CASE("the modes of an affinity option") {
  CHECK(read("on").mode == Mode::on);
  CHECK(read("off").mode == Mode::off);
  CHECK(read("per-task").mode == Mode::per_task);
  CHECK(read("map:0").mode == Mode::map);
  CHECK(read("on").given);
  CHECK(read(1).mode == Mode::on);
  CHECK(read(true).mode == Mode::on);
  CHECK(read(0).mode == Mode::off);
  CHECK(read(false).mode == Mode::off);
}

TEST_CASE("verbose and dry-run come before the mode, in any order, or alone") {
  CHECK(read("verbose").mode == Mode::on);
  CHECK(read("verbose").verbose);
  CHECK_FALSE(read("verbose").dry_run);
  CHECK(read("dry-run").dry_run);
  CHECK(read("dry-run").verbose);
  CHECK(read("dry-run,verbose").dry_run);
  CHECK(read("verbose,dry-run,per-task").mode == Mode::per_task);
  CHECK(read("verbose,map:0,1;2").map[0].str() == "0-1");
  CHECK(error("per-task,verbose").starts_with("cpu-affinity: expected on, off, per-task, per-task:LEVEL ("));
}

TEST_CASE("an affinity option as an object") {
  CHECK(read({{"verbose", true}}).verbose);
  CHECK(read({{"verbose", 1}}).mode == Mode::on);
  CHECK(read({{"mode", "per-task"}, {"dry-run", true}}).mode == Mode::per_task);
  CHECK(read({{"mode", "per-task"}, {"dry-run", true}}).verbose);
  CHECK(read({{"mode", "map:3"}}).map[0].str() == "3");
  CHECK(read({{"mode", false}, {"verbose", true}}).mode == Mode::off);
  CHECK(read({{"mode", "dry-run,per-task"}, {"verbose", false}}).dry_run);
  CHECK(read(Json::object()).mode == Mode::on);
  CHECK(error({{"mode", "sideways"}}).starts_with("cpu-affinity.mode: expected on, off"));
  CHECK(error({{"verbose", "yes"}}) == "cpu-affinity.verbose: expected true or false, got \"yes\"");
  CHECK(error({{"loud", 1}}).starts_with("cpu-affinity"));
}

TEST_CASE("what is no affinity option is named") {
  for (const Json& value :
       {Json("sideways"), Json(""), Json("verbose,"), Json(2), Json(-1), Json(0.5), Json::array({1}), Json("ON")}) {
    CHECK(error(value).starts_with("cpu-affinity: expected on, off, per-task, per-task:LEVEL ("));
  }
}

TEST_CASE("a map has a set for each task and starts anew when it is through") {
  AffinityOption option = read("map:7;4-6");
  REQUIRE(option.map.size() == 2);
  CHECK(option.set_of(0).str() == "7");
  CHECK(option.set_of(1).str() == "4-6");
  CHECK(option.set_of(2).str() == "7");
  CHECK(option.set_of(5).str() == "4-6");
}

TEST_CASE("an entry of a map that is no set is named") {
  CHECK(error("map:0;x").starts_with("cpu-affinity: map: 'x': "));
  CHECK(error("map:0x0;1") == "cpu-affinity: map: '0x0': the set is empty; a set is written 0-3,7 or 0x8f");
  CHECK(error("map:").starts_with("cpu-affinity: map: '': "));
  CHECK(error("map:0;").starts_with("cpu-affinity: map: '': "));
}

TEST_CASE("sets as lists") {
  CHECK(normal("0") == "0");
  CHECK(normal("0-3,7") == "0-3,7");
  CHECK(normal("7,0-3") == "0-3,7");
  CHECK(normal("1,1") == "1");
  CHECK(normal("4-") == "4-65535");
  CHECK(normal("0,65534-") == "0,65534-65535");
  CHECK(normal("65535") == "65535");
}

TEST_CASE("sets as masks, in words and in one") {
  CHECK(normal("0x1") == "0");
  CHECK(normal("0xff") == "0-7");
  CHECK(normal("0xF0f") == "0-3,8-11");
  CHECK(normal("0xf,0xf") == "0-3,32-35");
  CHECK(normal("0x00ffffff,,,0x00ffffff") == "0-23,96-119");
  CHECK(normal("0x3fff0000,,,0x00003fff") == "0-13,112-125");
  CHECK(normal("0x1,00000000") == "32");
  CHECK(normal("0x100000000") == "32");
  CHECK(normal("0x00000000000000000000000000000001") == "0");
}

TEST_CASE("sets that are none") {
  for (const char* text : {"", ",", "1,", ",1", "x", "1-x", "3-1", "-1", "-", "0x", "0xg", "0x1,0xg",
                           "0x1,123456789", "0x0", "0x0,0x0", "1;2", "1 2", "all", "0x1-3"}) {
    INFO(text);
    CHECK_FALSE(parse_affinity_set(text));
  }
}

TEST_CASE("sets beyond the limit are refused before they are built") {
  CHECK(parse_affinity_set("65536").error().code == ERANGE);
  CHECK(parse_affinity_set("0-4000000000").error().code == ERANGE);
  CHECK(normal("0x8" + std::string(65536 / 4 - 1, '0')) == "65535");
  CHECK(parse_affinity_set("0x1" + std::string(65536 / 4, '0')).error().code == ERANGE);
  CHECK(normal("0x80000000" + std::string(65536 / 32 - 1, ',')) == "65535");
  CHECK(parse_affinity_set("0x1" + std::string(65536 / 32, ',')).error().code == ERANGE);
}

TEST_CASE("shares are even and leave nothing out") {
  using Share = std::pair<std::size_t, std::size_t>;
  CHECK(share_of(0, 1, 8) == Share(0, 8));
  CHECK(share_of(0, 4, 8) == Share(0, 2));
  CHECK(share_of(3, 4, 8) == Share(6, 8));
  CHECK(share_of(0, 3, 8) == Share(0, 2));
  CHECK(share_of(1, 3, 8) == Share(2, 5));
  CHECK(share_of(2, 3, 8) == Share(5, 8));
  CHECK(share_of(0, 3, 0) == Share(0, 0));
}

TEST_CASE("more tasks than things share them evenly") {
  std::vector<std::size_t> firsts;
  for (std::size_t task = 0; task < 5; ++task) {
    auto [first, last] = share_of(task, 5, 2);
    CHECK(last == first + 1);
    firsts.push_back(first);
  }
  CHECK(firsts == std::vector<std::size_t>{0, 0, 0, 1, 1});
}

TEST_CASE("per-task may have a level, of cpus only; closest is for gpus only") {
  using plugins::CpuLevel;
  CHECK(read("per-task").level == CpuLevel::core);
  CHECK(read("per-task:l3").level == CpuLevel::l3);
  CHECK(read("per-task:l3").mode == Mode::per_task);
  CHECK(read(Json{{"mode", "verbose,per-task:package"}}).level == CpuLevel::package);
  CHECK(error("closest").starts_with(
      "cpu-affinity: expected on, off, per-task, per-task:LEVEL (thread, core, l3, numa, "
      "package) or map:LIST"));
  CHECK(error("per-task:socket").ends_with(R"(got "per-task:socket")"));
  Json closest = "verbose,closest";
  Json level = "per-task:numa";
  auto gpus = [](const Json& value) {
    return AffinityOption::read(JsonAt::root(value, "gpu-affinity"), AffinityOption::Resource::gpus);
  };
  REQUIRE(gpus(closest));
  CHECK(gpus(closest)->mode == Mode::closest);
  CHECK_FALSE(gpus(level));
}

TEST_CASE("mem-affinity and nic-affinity are words, off by default") {
  CHECK(plugins::read_mem_affinity(std::nullopt) == "off");
  for (const Json& value : {Json("off"), Json(0), Json(false)})
    CHECK(plugins::read_mem_affinity(JsonAt::root(value, "mem-affinity")) == "off");
  Json interleave = "interleave";
  CHECK(plugins::read_mem_affinity(JsonAt::root(interleave, "mem-affinity")) == "interleave");
  Json one = 1;
  auto wrong = plugins::read_mem_affinity(JsonAt::root(one, "mem-affinity"));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "mem-affinity: expected bind, prefer, interleave or off, got 1");
  Json closest = "closest";
  CHECK(plugins::read_nic_affinity(JsonAt::root(closest, "nic-affinity")) == "closest");
}

// What the plugins mem-affinity, gpu-affinity and nic-affinity do with a plan, by whichever plugin it was made.

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

namespace {

// The cores of this machine, which the plugin reads.
struct ThisMachine {
  ThisMachine() : rights(*plugins::read_cpu_rights()), cores(*plugins::read_cores(rights.online)) {}
  // This process may use every core, and their order needs no hwloc.
  [[nodiscard]] bool plain() const { return cores && rights.allowed == rights.online; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(cores->size()); }

  plugins::CpuRights rights;
  std::optional<std::vector<Idset>> cores;
};

std::string resources(const std::string& cores) {
  return fmt::format(R"({{"version":1,"execution":{{"R_lite":[{{"rank":"0","children":{{"core":"{}"}}}}],
    "nodelist":["fake0"],"starttime":0,"expiration":0}}}})",
                     cores);
}

std::string jobspec(unsigned tasks) {
  return fmt::format(R"({{"version":1,"resources":[{{"type":"slot","count":1,"label":"task",
    "with":[{{"type":"core","count":1}}]}}],"tasks":[{{"command":["true"],"slot":"task","count":{{"total":{}}}}}],
    "attributes":{{"system":{{"duration":0}}}}}})",
                     tasks);
}

// Tasks on these cores of R, with this option; null: not set.
struct Binding {
  Binding(unsigned tasks, const std::string& cores, const Json& option = nullptr)
      : host(jobspec(tasks), resources(cores)) {
    if (!option.is_null()) host.options().set("cpu-affinity", option);
    host.stack().push(plugins::make_cpu_affinity(host));
    host.make_tasks();
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  task::CpuMask bind(std::size_t task) {
    REQUIRE(error.empty());
    auto called = host.call_task("task.init", task);
    REQUIRE(called);
    return host.tasks()[task]->command().setup.cpus;
  }

  kit::FakeHost host;
  std::string error;
};

constexpr const char* kCpuAffinityError = "plugin 'cpu-affinity': shell.init: ";

}  // namespace

TEST_CASE("tasks of a job that has the whole node are not bound: they inherit what the shell has") {
  ThisMachine machine;
  if (!machine.plain()) return;
  std::string all = Idset::range(0, machine.count() - 1).str();
  for (const Json& option : {Json(nullptr), Json("on"), Json(1), Json(true)}) {
    Binding binding(2, all, option);
    CHECK(binding.bind(0).empty());
    CHECK(binding.bind(1).empty());
    CHECK(binding.host.logged.empty());
  }
}

TEST_CASE("each task is bound to all cores of the job by default") {
  ThisMachine machine;
  if (!machine.plain() || machine.count() < 2) return;
  Binding binding(2, "1");
  CHECK(binding.bind(0) == plugins::mask_of((*machine.cores)[1]));
  CHECK(binding.bind(1) == plugins::mask_of((*machine.cores)[1]));
}

TEST_CASE("per-task divides the cores") {
  ThisMachine machine;
  if (!machine.plain() || machine.count() < 2) return;
  Binding binding(2, "0-1", "per-task");
  CHECK(binding.bind(0) == plugins::mask_of((*machine.cores)[0]));
  CHECK(binding.bind(1) == plugins::mask_of((*machine.cores)[1]));
  Binding shared(5, "0-1", "per-task");
  for (std::size_t task : {0U, 1U, 2U}) CHECK(shared.bind(task) == plugins::mask_of((*machine.cores)[0]));
  for (std::size_t task : {3U, 4U}) CHECK(shared.bind(task) == plugins::mask_of((*machine.cores)[1]));
}

TEST_CASE("a map names cpus, the job's or not, and starts anew for more tasks") {
  ThisMachine machine;
  Idset::Id cpu = *machine.rights.allowed.last();
  Idset one = Idset::range(cpu, cpu);
  bool all = machine.rights.allowed == one;
  Binding binding(3, "0", fmt::format("map:{};{}", cpu, machine.rights.allowed.str()));
  CHECK(binding.bind(0) == (all ? task::CpuMask() : plugins::mask_of(one)));
  CHECK(binding.bind(1).empty());
  CHECK(binding.bind(2) == binding.bind(0));
}

TEST_CASE("a map may be open at its end") {
  ThisMachine machine;
  if (!machine.plain()) return;
  Binding binding(1, "0", "map:0-");
  CHECK(binding.bind(0).empty());
}

TEST_CASE("cpus of a map that are not there are an error that names them") {
  ThisMachine machine;
  std::string online = machine.rights.online.str();
  CHECK(Binding(1, "0", "map:0,9999").error ==
        fmt::format("{}cpu-affinity: map: this node has cpus {}, not 9999", kCpuAffinityError, online));
  CHECK(Binding(1, "0", "map:0;9999-").error ==
        fmt::format("{}cpu-affinity: map: this node has cpus {}, not 9999-65535", kCpuAffinityError, online));
  CHECK(Binding(1, "0", "map:0;70000")
            .error.starts_with(std::string(kCpuAffinityError) + "cpu-affinity: map: '70000': "));
}

TEST_CASE("cores of R that are not there: a notice by default, an error for who asked") {
  ThisMachine machine;
  if (!machine.plain()) return;
  std::string why = fmt::format(
      "R gives core 60000 of this node, which has {}",
      machine.count() == 1 ? "1 core (0)" : fmt::format("{} cores (0-{})", machine.count(), machine.count() - 1));
  Binding silent(1, "60000");
  CHECK(silent.bind(0).empty());
  CHECK(silent.host.logged == std::vector<std::string>{"notice cpu-affinity: tasks are not bound: " + why});
  for (const char* option : {"on", "per-task", "verbose"}) {
    CHECK(Binding(1, "60000", option).error == kCpuAffinityError + why + "; correct R, or use -o cpu-affinity=off");
  }
  CHECK(Binding(1, "60000", "off").error.empty());
  CHECK(Binding(1, "60000", "map:" + machine.rights.allowed.str()).error.empty());
}

TEST_CASE("off does nothing") {
  for (const Json& option : {Json("off"), Json(0), Json(false)}) {
    Binding binding(1, "0", option);
    CHECK(binding.bind(0).empty());
    CHECK(binding.host.logged.empty());
  }
}

TEST_CASE("verbose tells the cpus of the job, and those of each task where they differ") {
  ThisMachine machine;
  if (!machine.plain()) return;
  std::string first = (*machine.cores)[0].str();
  Binding on(1, "0", "verbose");
  on.bind(0);
  CHECK(on.host.logged == std::vector<std::string>{"notice cpu-affinity: cpus: " + first});
  Binding per_task(2, "0", Json{{"verbose", true}, {"mode", "per-task"}});
  per_task.bind(0);
  per_task.bind(1);
  CHECK(per_task.host.logged == std::vector<std::string>{"notice cpu-affinity: cpus: " + first,
                                                         "notice cpu-affinity: task 0: cpus: " + first,
                                                         "notice cpu-affinity: task 1: cpus: " + first});
  Binding map(1, "0", "verbose,map:" + first);
  map.bind(0);
  CHECK(map.host.logged == std::vector<std::string>{"notice cpu-affinity: task 0: cpus: " + first});
}

TEST_CASE("dry-run tells the cpus and binds nothing") {
  ThisMachine machine;
  if (!machine.plain()) return;
  std::string first = (*machine.cores)[0].str();
  for (const char* option : {"dry-run,per-task", "verbose,dry-run,map:"}) {
    Binding binding(1, "0", std::string(option) + (std::string_view(option).ends_with("map:") ? first : ""));
    CHECK(binding.bind(0).empty());
    CHECK(binding.host.logged.back() == "notice cpu-affinity: task 0: cpus: " + first);
  }
}

TEST_CASE("an option that cpu-affinity does not know is an error") {
  CHECK(Binding(1, "0", "sideways")
            .error.starts_with(std::string(kCpuAffinityError) + "cpu-affinity: expected on, off, per-task"));
  CHECK(Binding(1, "0", Json::array())
            .error.starts_with(std::string(kCpuAffinityError) + "cpu-affinity: expected on, off, per-task"));
}

namespace {

class OtherMachine final : public plugin::Plugin {
 public:
  OtherMachine() : Plugin("other-machine") {
    on("hwloc.cores", [](plugin::Call& call) {
      call.out["cores"] = Json{"1000", "1001", "1002-1003", "1004"};
      return Result<void>();
    });
    on("hwloc.topology", [](plugin::Call& call) {
      call.out["cores"] = Json{"1000", "1001", "1002-1003", "1004"};
      return Result<void>();
    });
  }
};

}  // namespace

TEST_CASE("FLUX_HWLOC_XMLFILE gives the cores by hwloc; a dry run prints them, whatever this machine has") {
  auto log_of = [](const char* option) {
    kit::FakeHost host(jobspec(2), resources("2-3"));
    host.environment().set("FLUX_HWLOC_XMLFILE", "other.xml");
    host.options().set("cpu-affinity", option);
    host.stack().push(plugins::make_cpu_affinity(host));
    host.stack().push(std::make_unique<OtherMachine>());
    host.make_tasks();
    Result<int> called = host.call("shell.init");
    if (!called) return std::vector{called.error().message};
    for (std::size_t task : {0, 1}) {
      CHECK(host.call_task("task.init", task));
      CHECK(host.tasks()[task]->command().setup.cpus.empty());
    }
    return host.logged;
  };
  CHECK(log_of("dry-run,per-task") == std::vector<std::string>{"notice cpu-affinity: cpus: 1002-1004",
                                                               "notice cpu-affinity: task 0: cpus: 1002-1003",
                                                               "notice cpu-affinity: task 1: cpus: 1004"});
  CHECK(log_of("per-task").front().find("R gives core 2 of this node, which has no cores") != std::string::npos);
}

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
