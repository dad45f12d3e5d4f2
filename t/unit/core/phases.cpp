// SPDX-License-Identifier: Apache-2.0
//
// The phases of a Shell: in which order a job's topics are called, and what each phase does when it fails.
#include <regex>

#include "core/shell.hpp"
#include "job/option_table.hpp"
#include "shell_under_test.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT
using core::misspelt_topics;
using core::unread_options;

namespace {

using Topics = std::vector<std::string>;

// How a plugin fails in a topic, and the job's exit code then.
struct Way {
  const char* name;
  ShellUnderTest::Do fail;
  int code;
  const char* message;  // to the other shells; {0}: the topic, {1}: the shell
};

std::vector<Way> ways() {
  auto raise = [](std::optional<value::WaitStatus> status) {
    return [status](ShellUnderTest& it) -> Result<void> {
      it.shell->host().raise({"exec", 0, "it was raised", status});
      return {};
    };
  };
  return {{"returns an error", [](ShellUnderTest&) -> Result<void> { return invalid("it failed"); }, 1,
           "plugin 'test': {0}: it failed"},
          {"raises", raise(std::nullopt), 1, "it was raised (plugin 'test', {0}, on node{1})"},
          {"raises with a status", raise(value::WaitStatus::exited(5)), 5,
           "it was raised (plugin 'test', {0}, on node{1})"},
          {"dies",
           [](ShellUnderTest& it) -> Result<void> {
             it.shell->host().die(9, "test", "it died");
             return {};
           },
           9, "test: it died ({0}, on node{1})"}};
}

// The topics that each shell calls once, in their order; the last one always.
const Topics kPhases{"shell.init",  "shell.post-init", "task.init",    "task.fork",
                     "shell.start", "task.exit",       "shell.finish", "shell.exit"};

bool comes_after(const std::string& topic, const std::string& other) {
  return std::find(kPhases.begin(), kPhases.end(), topic) > std::find(kPhases.begin(), kPhases.end(), other);
}

// Tasks that run until they are killed, unless the failure comes after the tasks' ends.
std::vector<std::string> command_for(const std::string& topic) {
  bool ends_by_itself = !comes_after("task.exit", topic);
  return ends_by_itself ? std::vector<std::string>{"true"} : std::vector<std::string>{"sleep", "1000"};
}

}  // namespace

TEST_CASE("a job of one shell calls its topics in order") {
  ShellUnderTest it;
  CHECK(it.run() == 0);
  CHECK(it.topics == Topics{"shell.init", "shell.post-init", "task.init", "task.fork", "shell.start", "task.exit",
                            "shell.finish", "shell.tasks-complete", "shell.exit"});
  CHECK(it.logged.empty());
  CHECK(!it.process.end.is_ending());
}

TEST_CASE("one shell of three calls its topics in order, between the barriers") {
  group::Rank rank = GENERATE(0, 1);
  ShellUnderTest it(rank, 3);
  it.tasks = 2;
  it.command = {"sleep", "0.5"};  // both start before one ends
  it.group->decided = 0;
  CHECK(it.run() == 0);
  Topics expected{"shell.init",  "shell.post-init", "task.init", "task.fork",    "task.init", "task.fork",
                  "shell.start", "task.exit",       "task.exit", "shell.finish", "shell.exit"};
  if (rank == 0) expected.insert(expected.end() - 1, "shell.tasks-complete");
  CHECK(it.topics == expected);
  CHECK(it.group->acts == Topics{"gather init", "enter start", "close bulk", "enter exit", "enter end", "leave 0"});
  CHECK(it.group->started == value::Idset::range(2 * rank, 2 * rank + 1));
  CHECK(it.group->ended.size() == 2);
  CHECK(it.logged.empty());
}

TEST_CASE("where a plugin of one shell wants that, no task starts before all shells are ready to") {
  ShellUnderTest it(1, 3);
  it.command = {"sleep", "1000"};
  it.at["shell.init"] = [](ShellUnderTest& shell) -> Result<void> {
    shell.shell->host().start_after_all();
    return {};
  };
  it.group->never_entered = {"ready"};  // by another shell, which fails
  it.group->at_barrier["ready"] = [&it] {
    CHECK(it.called("shell.post-init") == 1);
    CHECK(it.called("task.init") == 0);
    it.raise_elsewhere(3);
  };
  it.group->decided = 3;
  CHECK(it.run() == 3);
  CHECK(it.group->started.empty());
  CHECK(it.called("task.init") == 0);
  CHECK(it.group->acts == Topics{"gather init", "enter ready", "close bulk", "enter exit", "enter end", "leave 3"});
}

TEST_CASE("a job of one shell has nobody to wait for before its tasks start") {
  ShellUnderTest it;
  it.at["shell.init"] = [](ShellUnderTest& shell) -> Result<void> {
    shell.shell->host().start_after_all();
    return {};
  };
  CHECK(it.run() == 0);
  CHECK(!it.shell);
}

TEST_CASE("a failure in any phase ends a job of one shell with its code") {
  for (const std::string& topic : kPhases) {
    for (const Way& way : ways()) {
      INFO("in " << topic << " it " << way.name);
      ShellUnderTest it;
      it.command = command_for(topic);
      it.at[topic] = way.fail;
      CHECK(it.run() == way.code);
      CHECK(it.process.end.is_ending());
      CHECK(it.called(topic) == 1);
      CHECK(it.called("shell.exit") == 1);
      CHECK(it.topics.back() == "shell.exit");
      bool has_started = comes_after(topic, "task.init");
      CHECK(it.called("task.exit") == has_started);
      CHECK(it.called("shell.start") == comes_after(topic, "task.fork"));
      // Once, in the log or as the error.
      CHECK(it.has_logged("it ") + it.error.has_value() == 1);
    }
  }
}

TEST_CASE("a failure in any phase of one shell of three is sent to the others, once") {
  group::Rank rank = GENERATE(0, 1);
  for (const std::string& topic : kPhases) {
    for (const Way& way : ways()) {
      INFO("in " << topic << " of shell " << rank << " it " << way.name);
      ShellUnderTest it(rank, 3);
      it.command = command_for(topic);
      it.at[topic] = way.fail;
      if (rank != 0) it.group->decided = way.code;
      CHECK(it.run() == way.code);
      REQUIRE(it.group->raised().size() == 1);
      std::string raised = it.group->raised()[0];
      CHECK_THAT(raised, Catch::Matchers::ContainsSubstring(fmt::format(fmt::runtime(way.message), topic, rank)));
      CHECK_THAT(raised, Catch::Matchers::ContainsSubstring(fmt::format("on node{}", rank)));
      REQUIRE(it.cause());
      CHECK(it.cause()->shell == rank);
      CHECK(it.called("shell.exit") == 1);
      CHECK(it.group->count("enter exit") == 1);
      CHECK(it.group->count("enter end") == 1);
      CHECK(it.group->count("leave") == 1);
      CHECK(it.group->acts.back() == fmt::format("leave {}", way.code));
      CHECK(!it.error);
      CHECK(it.has_logged("it ") == (rank == 0));
    }
  }
}

namespace {

using Lines = std::vector<std::string>;

Lines of_plugin(std::initializer_list<const char*> topics, std::string origin = "my.lua:1") {
  plugin::Stack stack;
  auto made = std::make_unique<plugin::Plugin>("mine", std::move(origin));
  for (const char* topic : topics) made->on(topic, [](plugin::Call&) -> Result<void> { return {}; });
  stack.push(std::move(made));
  return misspelt_topics(stack);
}

}  // namespace

TEST_CASE("a plugin that listens to a misspelt topic is named, with the nearest topic if it is near") {
  CHECK(of_plugin({"shell.inti"}) == Lines{"plugin 'mine' (my.lua:1) listens to 'shell.inti', which no shell ever "
                                           "calls; did you mean 'shell.init'?"});
  CHECK(of_plugin({"shell.whatever"}) ==
        Lines{"plugin 'mine' (my.lua:1) listens to 'shell.whatever', which no shell "
              "ever calls; nacre-shell-plugins(7) has all topics"});
  CHECK(of_plugin({"tsk.*", "task.*", "task.ext"}).size() == 2);
}

TEST_CASE("topics of other plugins, those of Flux, and builtin plugins are not") {
  CHECK(of_plugin({"shell.init", "mine.reload", "mine.*", "shell.reconnect", "taskmap.x", "*"}).empty());
  CHECK(of_plugin({"shell.inti"}, "builtin").empty());
}

namespace {

Lines unread(const char* set, const char* system = "{}", std::initializer_list<const char*> asked = {}) {
  job::Options options(Json::parse(set));
  for (const char* each : asked) static_cast<void>(options.find(each));
  job::Jobspec spec;
  spec.document = Json{{"attributes", {{"system", Json::parse(system)}}}};
  return unread_options(options, spec);
}

}  // namespace

TEST_CASE("an option that nobody has read is named, with the one that may be meant") {
  CHECK(unread(R"({"exit-timeout": 1, "output": {"x": 1}})").empty());
  CHECK(unread(R"({"exit-timout": 1})") ==
        Lines{"no plugin reads the option exit-timout; did you mean exit-timeout?"});
  CHECK(unread(R"({"colour": 1})") == Lines{"no plugin reads the option colour"});
}

TEST_CASE("an option of a plugin counts as read once it was asked for, set or not") {
  CHECK(unread(R"({"colour": {"deep": 1}})", "{}", {"colour.other"}).empty());
  CHECK(unread(R"({"color": 1})", "{}", {"colour"}) ==
        Lines{"no plugin reads the option color; did you mean colour?"});
}

TEST_CASE(
    "an option that only a file of the installed initrc reads is named where none has read it, unless it is off") {
  CHECK(
      unread(R"({"omp-threads": "per-task"})") ==
      Lines{"the option omp-threads has no effect: only omp-threads.lua of the installed initrc reads it, and this "
            "job's initrc does not load that"});
  CHECK(unread(R"({"mpi": "openmpi"})").size() == 1);
  CHECK(unread(R"({"scratch": {"dir": "/x"}})").size() == 1);
  CHECK(unread(R"({"mpi": "none", "scratch": false, "vmstat": 0, "omp-threads": "off"})").empty());
  CHECK(unread(R"({"mpi": "openmpi"})", "{}", {"mpi"}).empty());
}

TEST_CASE("a member of the jobspec that is near to one that is read is named") {
  CHECK(unread("{}", R"({"cwd": "/", "queue": "x", "exec": {}, "mine": 1})").empty());
  CHECK(unread("{}", R"({"enviroment": {}})") ==
        Lines{"jobspec: attributes.system.enviroment is not read; did you mean environment?"});
}

TEST_CASE("all options of the manual page are known") {
  std::string text = read_file(NACRE_SOURCE_DIR "/doc/man/nacre-shell-options.7.scd").value();
  std::regex name(R"(\n\*([a-z][a-z-]*))");
  int count = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
    std::string option = (*it)[1];
    if (option.starts_with("nacre-")) continue;  // in SEE ALSO
    INFO(option);
    const Lines lines = unread((R"({")" + option + R"(": 1})").c_str());
    const bool is_of_initrc = !job::file_that_reads(option).empty();
    CHECK((is_of_initrc
               ? lines.size() == 1 && lines[0].starts_with("the option " + option + " has no effect: only ")
               : lines.empty()));
    ++count;
  }
  CHECK(count > 40);
}
