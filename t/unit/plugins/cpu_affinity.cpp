// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/affinity/job_cpus.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using value::Idset;

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
