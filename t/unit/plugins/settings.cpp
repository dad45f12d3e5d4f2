// SPDX-License-Identifier: Apache-2.0
//
// Each setting (task/settings.hpp): the option that sets it, what a task then has, what is said where the kernel
// refuses it, its line of --explain, and that processes which tasks spawn get it.
#include "task/settings.hpp"

#include "../task/run.hpp"
#include "fake_host.hpp"
#include "plugin/plan.hpp"
#include "plugins/builtins.hpp"
#include "plugins/pmi/spawn_order.hpp"

using namespace nacre;

namespace {

struct Refused {
  const char* option;
  const char* error;
};

// One of each setting. `refused` is a value that no kernel takes, with the `error` then; left out if there is none.
template <typename Setting>
struct SampleOf;

template <>
struct SampleOf<task::OomScore> {
  plugins::PluginPtr (*plugin)(plugin::Host&) = plugins::make_oom;
  const char* option = R"({"oom": {"adjust": 777}})";
  std::string value = "777";
  const char* command = "cat /proc/self/oom_score_adj";
  const char* shows = "777\n";
  const char* line = "oom     777";
  std::string refused = "much";
  const char* error = "cannot set the OOM score to much: Invalid argument";
  std::vector<Refused> wrong = {
      {R"({"oom": {"adjust": "high"}})", R"(oom.adjust: expected an integer from -1000 to 1000, got "high")"},
      {R"({"oom": 5})", "oom: expected an object, got 5"}};
};

template <>
struct SampleOf<task::Scheduler> {
  plugins::PluginPtr (*plugin)(plugin::Host&) = plugins::make_scheduling;
  const char* option = R"({"sched": "batch"})";
  int value = SCHED_BATCH;
  const char* command = "chrt -p 0 | sed -n 's/.* policy: //p'";
  const char* shows = "SCHED_BATCH\n";
  const char* line = "sched   batch";
  int refused = 77;
  const char* error = "cannot set the scheduling policy: Invalid argument";
  std::vector<Refused> wrong = {{R"({"sched": "fifo"})", R"(sched: expected batch, other or idle, got "fifo")"}};
};

template <typename Setting>
struct Optioned {
  explicit Optioned(const char* options) {
    host.stack().push(SampleOf<Setting>().plugin(host));
    host.make_tasks();
    const Json all = Json::parse(options);
    for (const auto& [name, value] : all.items()) host.options().set(name, value);
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  kit::FakeHost host{2};
  std::string error;
};

void for_each_setting(const auto& check) {
  task::Settings::for_each([&](auto setting) {
    CAPTURE(setting.kName);
    check(setting, SampleOf<decltype(setting)>());
  });
}

}  // namespace

TEST_CASE("each setting is what its option says, for all tasks, and a line of the plan") {
  for_each_setting([](auto setting, const auto& sample) {
    Optioned<decltype(setting)> plugin(sample.option);
    REQUIRE(plugin.error.empty());
    for (std::size_t task : {0U, 1U}) {
      REQUIRE(plugin.host.call_task("task.init", task));
      CHECK(plugin.host.tasks()[task]->command().setup.settings.of(setting) == sample.value);
    }
    const Json part = plugin::plan_part(plugin.host, {}, {});
    const auto lines = part.at("tasks").at(1).at("lines").template get<std::vector<std::string>>();
    CHECK(std::count(lines.begin(), lines.end(), sample.line) == 1);
  });
}

TEST_CASE("the option of a setting names the values that it takes") {
  for_each_setting([](auto setting, const auto& sample) {
    REQUIRE_FALSE(sample.wrong.empty());
    for (const Refused& each : sample.wrong) {
      const std::string error = Optioned<decltype(setting)>(each.option).error;
      CHECK(error.substr(error.find("shell.init: ") + 12) == each.error);
    }
  });
}

TEST_CASE("a task has each setting, and one that the kernel refuses is named") {
  for_each_setting([](auto setting, const auto& sample) {
    task::Command what = task::sh(sample.command);
    const std::string without = task::run(what).out;
    CHECK(without != sample.shows);
    what.setup.settings.of(setting) = sample.value;
    CHECK(task::run(what).out == sample.shows);
    CHECK(task::run(what, [] { return true; }).out == sample.shows);
    if constexpr (requires { sample.refused; }) {
      what.setup.settings.of(setting) = sample.refused;
      const task::Outcome outcome = task::run(what);
      CHECK(outcome.error == sample.error);
      CHECK(outcome.exit_code == 126);
    }
  });
}

TEST_CASE("an order to spawn has each setting of the task, and its processes get them") {
  plugins::SpawnOrder order;
  order.spawn.programs = {{1, {"a"}, {}}};
  for_each_setting([&](auto setting, const auto& sample) {
    REQUIRE_FALSE(plugins::SpawnOrder::decode(order.encode())->setup.settings.of(setting));
    order.setup.settings.of(setting) = sample.value;
    CHECK(plugins::SpawnOrder::decode(order.encode())->setup.settings.of(setting) == sample.value);
    task::ChildSetup process;
    plugins::copy_common_setup(order.setup, process);
    CHECK(process.settings.of(setting) == sample.value);
  });
}
