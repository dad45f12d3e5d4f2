// SPDX-License-Identifier: Apache-2.0
#include "plugin/tags.hpp"

#include "catch.hpp"

#include "fake_host.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

// Two nodes with two tasks each, seen from the second.
kit::FakeHost second_of_two(const std::string& job = "{}") {
  std::string jobspec = R"({"version":1,"resources":[{"type":"slot","count":4,"label":"task","with":[{"type":"core",
    "count":1}]}],"tasks":[{"command":["/usr/bin/hello","x"],"slot":"task","count":{"per_slot":1}}],
    "attributes":{"system":{"duration":0,"job":)";
  return kit::FakeHost(jobspec + job + "}}}", R"({"version":1,"execution":{"R_lite":[
    {"rank":"3","children":{"core":"0-1"}},{"rank":"7","children":{"core":"4-5","gpu":"0,2"}}],
    "nodelist":["left","right"],"starttime":0,"expiration":0}})",
                       1);
}

// Gives {{own}}, and fails for {{bad}}.
void add_plugin(kit::FakeHost& host) {
  auto plugin = std::make_unique<Plugin>("mine");
  plugin->on("mustache.render.own", [](Call& call) {
    call.out["result"] = call.in.dump();
    return Result<void>();
  });
  plugin->on("mustache.render.bad", [](Call&) -> Result<void> { return invalid("not today"); });
  plugin->on("mustache.render.number", [](Call& call) {
    call.out["result"] = 7;
    return Result<void>();
  });
  plugin->on("mustache.render.none", [](Call&) { return Result<void>(); });
  host.stack().push(std::move(plugin));
}

}  // namespace

TEST_CASE("tags of the job") {
  auto host = second_of_two();
  auto render = [&](const char* text) { return render_tags(host, text).value(); };
  CHECK(render("{{id}} {{jobid}} {{id.f58}}") == "ƒ2 ƒ2 ƒ2");
  CHECK(render("{{id.dec}} {{jobid.dec}} {{id.hex}} {{id.dothex}}") == "1 1 0x1 0000.0000.0000.0001");
  CHECK(render("{{id.words}}") == host.job().id.words());
  CHECK(render("{{id.emoji}}") == host.job().id.emoji());
  CHECK(render("{{name}}") == "hello");
  CHECK(render("{{size}} {{ntasks}} {{nnodes}}") == "4 4 2");
  CHECK(render("{{taskmap}}") == "[[0,2,2,1]]");
  CHECK(Json::parse(render("{{resources}}")) == host.job().resources.document);
}

TEST_CASE("a job's own name comes before its program's, if it is a name") {
  auto named = second_of_two(R"({"name":"simulation 7"})");
  CHECK(render_tags(named, "{{name}}").value() == "simulation 7");
  auto odd = second_of_two(R"({"name":7})");
  CHECK(render_tags(odd, "{{name}}").value() == "hello");
}

TEST_CASE("tags of a node are this one's, or another's") {
  auto host = second_of_two();
  auto render = [&](const char* text, const TagScope& scope = {}) {
    return render_tags(host, text, scope).value();
  };
  CHECK(render("{{node.id}} {{node.name}} {{node.broker_rank}}") == "1 right 7");
  CHECK(render("{{node.cores}} {{node.ncores}} {{node.gpus}}") == "4-5 2 0,2");
  CHECK(render("{{node.taskids}} {{node.ntasks}}") == "2-3 2");
  CHECK(Json::parse(render("{{node.resources}}")) == Json({{"cores", "4-5"}, {"ncores", 2}, {"gpus", "0,2"}}));
  CHECK(render("{{node.id}} {{node.name}} {{node.gpus}}", {.shell_rank = 0}) == "0 left ");
  CHECK(render_tags(host, "{{id}}", {.shell_rank = 2}).error().message == "there is no shell 2");
}

TEST_CASE("tags of a task need one") {
  auto host = second_of_two();
  host.make_tasks();
  constexpr const char* kAll =
      "{{taskid}} {{task.id}} {{task.rank}} {{task.index}} {{task.localid}} {{task.attempt}}";
  CHECK(render_tags(host, kAll, {.task = host.tasks()[1].get()}).value() == "3 3 3 1 1 0");
  CHECK(render_tags(host, kAll).value() == kAll);
}

TEST_CASE("what nobody knows stays as it is") {
  auto host = second_of_two();
  host.make_tasks();
  for (const char* text : {"{{foo}}", "{{node.foo}}", "{{task.foo}}", "{{id.foo}}", "{{id.}}", "{{idx}}",
                           "{{none}}", "{{node.}}", "out{{invalid", "{{}}", "{ {id} }"}) {
    CHECK(render_tags(host, text, {.task = host.tasks()[0].get()}).value() == text);
  }
}

TEST_CASE("plugins add tags, and are told what for") {
  auto host = second_of_two();
  add_plugin(host);
  host.make_tasks();
  CHECK(render_tags(host, "{{own}}").value() == R"({"shell_rank":1,"tag":"own"})");
  CHECK(render_tags(host, "{{own}}", {.shell_rank = 0}).value() == R"({"shell_rank":0,"tag":"own"})");
  CHECK(render_tags(host, "{{own}}", {.task = host.tasks()[1].get()}).value() ==
        R"({"localid":1,"rank":3,"shell_rank":1,"tag":"own"})");
  CHECK(render_tags(host, "{{none}}").value() == "{{none}}");
}

TEST_CASE("a plugin that fails, or gives no text, is named") {
  auto host = second_of_two();
  add_plugin(host);
  CHECK(render_tags(host, "a {{bad}}").error().message == "{{bad}}: plugin 'mine': mustache.render.bad: not today");
  CHECK(render_tags(host, "{{number}}").error().message ==
        "{{number}}: mustache.render.number.result: expected a string, got 7");
}

TEST_CASE("whether a text differs between shells is told from its tags") {
  auto host = second_of_two();
  add_plugin(host);
  for (const char* text : {"{{node.id}}", "{{task.id}}", "{{taskid}}", "{{tmpdir}}", "a {{id}} {{own}}"}) {
    CHECK(differs_by_rank(host, text).value());
  }
  for (const char* text : {"", "plain", "{{id}}", "{{name}}{{none}}", "{{foo}}"}) {
    CHECK_FALSE(differs_by_rank(host, text).value());
  }
  CHECK_FALSE(differs_by_rank(host, "{{bad}}"));
}

TEST_CASE("a text is one task's by its rank, its number and node, or an argument that is there once") {
  auto host = second_of_two();
  for (const char* text : {"{{taskid}}", "a.{{ task.rank }}.b", "{{task.id}}", "{{node.id}}/{{task.index}}",
                           "{{task.localid}}.{{node.id}}", "{{task.slot}}-{{task.rank}}"}) {
    INFO(text);
    CHECK(is_of_one_task(host, text).value());
  }
  for (const char* text : {"", "all", "{{id}}", "{{taskmap}}", "{{task.index}}", "{{task.slot}}", "{{node.id}}",
                           "{{task.attempt}}", "{{task.argument}}", "task.rank", "{{task.rank"}) {
    INFO(text);
    CHECK_FALSE(is_of_one_task(host, text).value());
  }
  host.options().set("arguments", Json::array({"a", "b"}));
  CHECK(is_of_one_task(host, "{{task.argument}}").value());
  host.options().set("arguments", Json::array({"a", "b", "a"}));
  CHECK_FALSE(is_of_one_task(host, "{{task.argument}}").value());
}
