// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

// Two tasks; shell.init with the option env-expand.
struct Rendered {
  explicit Rendered(const Json& env_expand = nullptr) : host(2) {
    host.stack().push(plugins::make_mustache(host));
    host.make_tasks();
    if (!env_expand.is_null()) host.options().set("env-expand", env_expand);
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  task::Command& command(std::size_t task) { return host.tasks()[task]->command(); }
  void init(std::size_t task) {
    REQUIRE(error.empty());
    REQUIRE(host.call_task("task.init", task));
  }

  kit::FakeHost host;
  std::string error;
};

}  // namespace

TEST_CASE("tags in arguments are rendered for each task, also in the program's name") {
  Rendered rendered;
  for (std::size_t task : {0U, 1U}) {
    rendered.command(task).argv = {"prog.{{task.rank}}", "{{size}}", "plain", "{{foo}}", "{{"};
    rendered.init(task);
  }
  CHECK(rendered.command(0).argv == std::vector<std::string>{"prog.0", "2", "plain", "{{foo}}", "{{"});
  CHECK(rendered.command(1).argv[0] == "prog.1");
}

TEST_CASE("env-expand sets variables of the job, and of each task where they have its tags") {
  Rendered rendered(Json{{"JOB", "{{id.dec}}"}, {"TASK", "{{size}}:{{taskid}}"}, {"ODD", "{{task.foo}}"}});
  const job::Environment& job = rendered.host.environment();
  CHECK(job.get("JOB") == "1");
  CHECK(job.get("TASK") == "2:{{taskid}}");
  for (std::size_t task : {0U, 1U}) rendered.init(task);
  CHECK(rendered.command(0).env.get("TASK") == "2:0");
  CHECK(rendered.command(1).env.get("TASK") == "2:1");
  CHECK(rendered.command(1).env.get("JOB") == "1");
  CHECK(rendered.command(1).env.get("ODD") == "{{task.foo}}");
}

TEST_CASE("the environment as such is not rendered: only env-expand is") {
  Rendered rendered;
  rendered.host.environment().set("FORMAT", "{{id}}");
  rendered.init(0);
  CHECK(rendered.command(0).env.get("FORMAT") == "{{id}}");
}

TEST_CASE("a template that fails says where it is") {
  auto failing = [](kit::FakeHost& host) {
    auto plugin = std::make_unique<plugin::Plugin>("mine");
    plugin->on("mustache.render.bad", [](plugin::Call&) -> Result<void> { return invalid("not today"); });
    host.stack().push(std::move(plugin));
  };
  Rendered rendered;
  failing(rendered.host);
  rendered.command(0).argv = {"prog", "{{bad}}"};
  CHECK(rendered.host.call_task("task.init", 0).error().message ==
        "plugin 'mustache': task.init: argument 1: {{bad}}: plugin 'mine': mustache.render.bad: not today");
}

TEST_CASE("env-expand is an object of texts, by names that a variable can have") {
  constexpr std::string_view kStart = "plugin 'mustache': shell.init: env-expand";
  for (const Json& wrong : {Json(1), Json("A=b"), Json{{"A", 1}}, Json{{"A=B", "x"}}, Json{{"", "x"}}}) {
    INFO(wrong.dump());
    CHECK(Rendered(wrong).error.starts_with(kStart));
  }
  CHECK(Rendered(Json{{"A", 1}}).error == std::string(kStart) + ".A: expected a string, got 1");
}
