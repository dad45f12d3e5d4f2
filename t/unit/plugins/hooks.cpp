// SPDX-License-Identifier: Apache-2.0
#include "plugins/hooks/hooks.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
using plugins::HookCommand;
using plugins::PrologLine;

namespace {

// A job of two tasks with these options, and a file `out` that the hooks may write to.
struct Hooked {
  explicit Hooked(const char* options, std::uint32_t tasks = 2) : host(tasks) {
    host.environment().set("PATH", "/usr/bin:/bin");
    host.environment().set("OUT", folder.path("out"));
    host.environment().set("JOB", "here");
    host.options() = job::Options(Json::parse(options));
    host.stack().push(plugins::make_hooks(host));
    host.make_tasks();
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  void begin() {
    REQUIRE(error.empty());
    REQUIRE(host.call("shell.post-init"));
    REQUIRE(host.run_loop());
  }
  void start_tasks() {
    for (const auto& task : host.tasks()) {
      REQUIRE(host.call_task("task.init", task->local_id()));
      task->started((1 << 30) + static_cast<pid_t>(task->local_id()));
    }
  }
  void end_task(std::size_t id, value::WaitStatus status) { REQUIRE(host.end_task(id, status)); }
  void finish() {
    REQUIRE(host.call("shell.finish"));
    REQUIRE(host.run_loop());
  }

  std::string out() const { return read_file(folder.path("out")).value_or("none"); }
  std::string exception() const {
    return host.exceptions.size() == 1 ? host.exceptions[0].message : std::to_string(host.exceptions.size());
  }
  std::string of_task(std::size_t task, std::string_view name) {
    return std::string(host.tasks()[task]->command().env.get(name).value_or("unset"));
  }

  kit::TemporaryFolder folder;
  kit::FakeHost host;
  std::string error;  // of shell.init
};

std::string hooks_error(const char* options) {
  std::string error = Hooked(options).error;
  constexpr std::string_view kStart = "plugin 'hooks': shell.init: ";
  return error.starts_with(kStart) ? error.substr(kStart.size()) : "no: " + error;
}

PrologLine line(std::string_view text) { return PrologLine::parse(text).value(); }

}  // namespace

// ---- what the options say ----------------------------------------------------------

TEST_CASE("a hook is a text for the shell, or an array, or an object of these") {
  job::Options options(Json::parse(R"({"a": "x y", "b": ["p", "q r"], "c": {"command": "z", "timeout": "1.5s"},
                                       "d": {"command": ["p"], "timeout": "none"}, "e": null})"));
  auto read = [&](const char* name) { return HookCommand::read(options, name, {"job", "arg"}).value(); };
  CHECK(read("a")->argv == std::vector<std::string>{"/bin/sh", "-c", "x y", "a", "job", "arg"});
  CHECK(read("a")->name == "a 'x y'");
  CHECK(read("a")->timeout.is_infinite());
  CHECK(read("b")->argv == std::vector<std::string>{"p", "q r"});
  CHECK(read("b")->name == "b 'p q r'");
  CHECK(read("c")->argv[2] == "z");
  CHECK(read("c")->timeout.seconds() == 1.5);
  CHECK(read("d")->timeout.is_infinite());
  CHECK_FALSE(read("e"));
  CHECK_FALSE(read("f"));
}

TEST_CASE("a hook that cannot be meant is an error that says where") {
  CHECK(hooks_error(R"({"prolog": 1})") ==
        "prolog: expected a command of /bin/sh, or an array of arguments, got 1");
  CHECK(hooks_error(R"({"epilog": " "})").starts_with("epilog: expected a command, got "));
  CHECK(
      hooks_error(R"({"task-prolog": []})").starts_with("task-prolog: expected a program and its arguments, got "));
  CHECK(hooks_error(R"({"task-prolog": [""]})")
            .starts_with("task-prolog: expected a program and its arguments, got "));
  CHECK(hooks_error(R"({"task-epilog": ["a", 1]})") == "task-epilog[1]: expected a string, got 1");
  CHECK(hooks_error(R"({"prolog": {"timeout": 1}})").starts_with("prolog: "));
  CHECK(hooks_error(R"({"prolog": {"command": "a", "timeout": "x"}})").starts_with("prolog.timeout: "));
  CHECK(hooks_error(R"({"prolog": {"command": "a", "time": 1}})").starts_with("prolog"));
  CHECK(hooks_error(R"({"prolog": {"command": {}}})").starts_with("prolog.command: expected a command of /bin/sh"));
}

TEST_CASE("a task-prolog's lines set, unset and print; others mean nothing") {
  CHECK(line("export A=1").kind == PrologLine::Kind::set);
  CHECK(line("export A=b c='d' ").text == "b c='d' ");
  CHECK(line("export  A=").name == "A");
  CHECK(line("export A=x=y").text == "x=y");
  CHECK(line("unset A ").kind == PrologLine::Kind::unset);
  CHECK(line("unset A ").name == "A");
  CHECK(line("print  two words ").text == " two words ");
  CHECK(line("print ").kind == PrologLine::Kind::print);
  for (const char* each : {"", "exported A=1", "export", " export A=1", "hello", "printf x", "unset"}) {
    CHECK(line(each).kind == PrologLine::Kind::other);
  }
}

TEST_CASE("a line of a task-prolog that cannot be obeyed is an error") {
  CHECK(PrologLine::parse("export A").error().message == "'export A': expected export NAME=VALUE");
  CHECK_FALSE(PrologLine::parse("export =1"));
  CHECK_FALSE(PrologLine::parse("unset "));
  CHECK_FALSE(PrologLine::parse("unset A=1"));
  CHECK_FALSE(PrologLine::parse(std::string_view("export A=b\0c", 12)));
  std::string longest = "export A=" + std::string(PrologLine::kMaxSize - 9, 'x');
  CHECK(line(longest).text.size() == PrologLine::kMaxSize - 9);
  CHECK(PrologLine::parse(longest + "x").error().message == "a line of more than 131072 bytes");
}

// ---- before the tasks --------------------------------------------------------------

TEST_CASE("without hooks nothing waits") {
  Hooked job("{}");
  job.begin();
  CHECK(job.host.start_holds.empty());
  CHECK(job.host.holds.empty());
  job.start_tasks();
  job.end_task(0, {});
  job.finish();
  CHECK(job.host.exceptions.empty());
}

TEST_CASE("the prolog runs once, with the job's environment and command, before the tasks may start") {
  Hooked job(R"({"prolog": "cat >> $OUT; echo \"$0 $@ $JOB ${FLUX_TASK_RANK-none}\" >> $OUT"})");
  REQUIRE(job.host.call("shell.post-init"));
  CHECK(job.host.start_holds == std::map<std::string, int>{{"hooks", 1}});
  REQUIRE(job.host.run_loop());
  CHECK(job.host.start_holds.empty());
  CHECK(job.out() == "prolog true here none\n");
  CHECK(job.host.exceptions.empty());
}

TEST_CASE("a task-prolog runs for each task, after the prolog, and changes its task's environment alone") {
  Hooked job(R"({"prolog": "sleep 0.1; echo first >> $OUT",
    "task-prolog": "test -s $OUT || exit 9; echo export RANK=r$FLUX_TASK_RANK; echo unset JOB; echo nothing"})");
  job.begin();
  CHECK(job.host.exceptions.empty());
  CHECK(job.host.start_holds.empty());
  CHECK(job.of_task(0, "RANK") == "unset");  // only in task.init
  job.start_tasks();
  CHECK(job.of_task(0, "RANK") == "r0");
  CHECK(job.of_task(1, "RANK") == "r1");
  CHECK(job.of_task(1, "JOB") == "unset");
  CHECK(job.host.environment().get("JOB") == "here");
}

TEST_CASE("the last line of a task-prolog needs no newline") {
  Hooked job(R"({"task-prolog": "printf 'export A=1\nexport B=2'"})");
  job.begin();
  job.start_tasks();
  CHECK(job.of_task(0, "A") == "1");
  CHECK(job.of_task(0, "B") == "2");
}

TEST_CASE("a prolog that fails ends the job with one reason, and no task may start") {
  Hooked failing(R"({"prolog": "exit 3", "task-prolog": "echo ran >> $OUT"})");
  failing.begin();
  CHECK(failing.exception() == "prolog 'exit 3': exited with code 3");
  CHECK(failing.host.exceptions[0].severity == 0);
  CHECK(failing.host.start_holds.count("hooks") == 1);
  CHECK(failing.out() == "none");

  Hooked killed(R"({"prolog": "kill -SEGV $$"})");
  killed.begin();
  CHECK(killed.exception().starts_with("prolog 'kill -SEGV $$': killed by SIGSEGV"));

  Hooked missing(R"({"prolog": ["/nowhere/prolog", "x"]})");
  missing.begin();
  CHECK(missing.exception() == "prolog '/nowhere/prolog x': /nowhere/prolog: No such file or directory");
}

TEST_CASE("one task-prolog that fails is enough, and is named with its task") {
  Hooked job(R"({"task-prolog": "exit $FLUX_TASK_RANK"})");
  job.begin();
  CHECK(job.exception() == "task 1: task-prolog 'exit $FLUX_TASK_RANK': exited with code 1");
  CHECK(job.host.start_holds.count("hooks") == 1);

  Hooked all(R"({"task-prolog": "echo x >> $OUT; exit 5"})", 200);
  all.begin();
  CHECK(all.host.exceptions.size() == 1);
  CHECK(all.out().size() == plugins::HookRunner::kMaxAtOnce * 2);  // hooks that wait are not begun

  Hooked malformed(R"({"task-prolog": "echo export A; echo export B=1"})", 1);
  malformed.begin();
  CHECK(malformed.exception() ==
        "task 0: task-prolog 'echo export A; echo export B=1': 'export A': expected export NAME=VALUE");
}

TEST_CASE("a task-prolog may set so many variables, and no more") {
  Hooked most(R"({"task-prolog": "seq 10000 | sed 's/.*/export V&=1/'"})", 1);
  most.begin();
  most.start_tasks();
  CHECK(most.of_task(0, "V10000") == "1");
  Hooked more(R"({"task-prolog": ["sh", "-c", "seq 10001 | sed 's/.*/export V&=1/'"]})", 1);
  more.begin();
  CHECK(more.exception().ends_with("more than 10000 variables"));
}

TEST_CASE("more tasks than run at once all have their prolog") {
  constexpr std::uint32_t kTasks = plugins::HookRunner::kMaxAtOnce + 6;
  Hooked job(R"({"task-prolog": "echo export R=$FLUX_TASK_RANK"})", kTasks);
  REQUIRE(job.host.call("shell.post-init"));
  CHECK(job.host.children().watched() == plugins::HookRunner::kMaxAtOnce);
  REQUIRE(job.host.run_loop());
  job.start_tasks();
  for (std::uint32_t i = 0; i < kTasks; ++i) CHECK(job.of_task(i, "R") == std::to_string(i));
}

TEST_CASE("a hook that takes too long is killed with all of its group") {
  Hooked job(R"({"prolog": {"command": "sleep 1000 & wait", "timeout": "50ms"}})");
  job.begin();
  CHECK(job.exception() == "prolog 'sleep 1000 & wait': took longer than 50ms");

  Hooked lines(R"({"task-prolog": {"command": "sleep 1000", "timeout": 0.05}})", 1);
  lines.begin();
  CHECK(lines.exception() == "task 0: task-prolog 'sleep 1000': took longer than 50ms");
}

TEST_CASE("a hook that would not end by a signal is killed with all of its group") {
  Hooked job(R"({"prolog": {"command": "trap '' TERM; kill -TERM $PPID; sleep 1000 & wait; wait", "timeout": "60s"},
                 "kill-timeout": 0.05})");
  job.begin();
  CHECK(job.exception().ends_with("': did not end within 50ms of SIGTERM"));
}

TEST_CASE("what a task-prolog leaves behind with its stdout does not keep the job") {
  Hooked job(R"({"task-prolog": "echo export A=1; sleep 1000 & echo $! > $OUT"})", 1);
  job.begin();
  job.start_tasks();
  CHECK(job.of_task(0, "A") == "1");
  auto left = parse_i64(trim(job.out()));
  REQUIRE(left);
  ::kill(static_cast<pid_t>(*left), SIGKILL);
}

// ---- after the tasks -----------------------------------------------------------------

TEST_CASE("a task-epilog runs when its task has ended, the epilog after all of them; each knows how it went") {
  Hooked job(R"({"task-epilog": "echo task $FLUX_TASK_RANK $NACRE_EXIT_STATUS $MINE >> $OUT",
                 "epilog": "echo node ${FLUX_TASK_RANK-none} $NACRE_EXIT_STATUS >> $OUT"})");
  job.begin();
  CHECK(job.host.holds == std::map<std::string, int>{{"hooks", 1}});
  job.host.tasks()[0]->command().env.set("MINE", "own");
  job.start_tasks();
  job.end_task(0, value::WaitStatus::killed(SIGTERM));
  REQUIRE(job.host.run_loop());
  CHECK(job.out() == "task 0 143 own\n");
  job.end_task(1, value::WaitStatus::exited(2));
  job.finish();
  CHECK(job.out() == "task 0 143 own\ntask 1 2\nnode none 143\n");
  CHECK(job.host.holds.empty());
  CHECK(job.host.exceptions.empty());
}

TEST_CASE("an epilog that fails is logged, and the job fails when all has ended") {
  Hooked job(R"({"task-epilog": "exit 4", "epilog": "exit 5"})");
  job.begin();
  job.start_tasks();
  job.end_task(0, {});
  REQUIRE(job.host.run_loop());
  CHECK(job.host.exceptions.empty());
  CHECK(job.host.logged ==
        std::vector<std::string>{"error hooks: task 0: task-epilog 'exit 4': exited with code 4"});
  job.end_task(1, {});
  job.finish();
  CHECK(job.host.logged.back() == "error hooks: epilog 'exit 5': exited with code 5");
  CHECK(job.exception() == "3 epilogs failed");
  CHECK_FALSE(job.host.exceptions[0].status);
  CHECK(job.host.holds.empty());
}

TEST_CASE("an epilog that cannot be started, or takes too long, has failed") {
  Hooked missing(R"({"epilog": ["/nowhere"]})");
  missing.begin();
  missing.start_tasks();
  missing.finish();
  CHECK(missing.host.logged.back() == "error hooks: epilog '/nowhere': /nowhere: No such file or directory");
  CHECK(missing.exception() == "1 epilog failed");
  CHECK(missing.host.holds.empty());

  Hooked slow(R"({"epilog": {"command": "sleep 1000", "timeout": "50ms"}})");
  slow.begin();
  slow.start_tasks();
  slow.finish();
  CHECK(slow.host.logged.back() == "error hooks: epilog 'sleep 1000': took longer than 50ms");
  CHECK(slow.exception() == "1 epilog failed");
}
