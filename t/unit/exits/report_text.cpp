// SPDX-License-Identifier: Apache-2.0
#include "exits/report_text.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre;
using exits::report_text;

namespace {

Json crash() {
  return {{"job", {{"id", "f2VxQ9"}, {"name", "hello"}, {"tasks", 8}}},
          {"exit", {{"code", 139}, {"policy", "max"}, {"by", "the cause"}}},
          {"cause",
           {{"rank", 1},
            {"host", "n3"},
            {"pid", 4711},
            {"record", "s11+"},
            {"started", 1000.0},
            {"ended", 1012.4},
            {"stderr", "one\nassertion `p != NULL' failed\n"}}},
          {"classes",
           {{{"record", "c/s15"}, {"ranks", "0,2-5"}},
            {{"record", "c"}, {"ranks", "6"}},
            {{"record", "l"}, {"ranks", "7"}},
            {{"record", "s11+"}, {"ranks", "1"}}}}};
}

std::string cause_with(const Json& members) {
  Json report = crash();
  report["cause"].erase("stderr");
  report["cause"].update(members);
  std::string text = report_text(report);
  std::string_view first = "nacre: f2VxQ9 hello: rank 1 on n3 (pid 4711) ";
  REQUIRE(text.starts_with(first));
  return text.substr(first.size(), text.find("\nnacre: ended because") - first.size());
}

}  // namespace

TEST_CASE("what has left as somebody asked for is told apart from victims") {
  Json report = crash();
  report["classes"][1]["record"] = "g/s15";
  CHECK(report_text(report).find(
            "\nnacre: lost: 7 | SIGSEGV: 1 | ended because of it: 0,2-5 | left by nacre shrink: 6\n") !=
        std::string::npos);
}

TEST_CASE("a report names the task that failed first, with its last words, and how all have ended") {
  CHECK(report_text(crash()) ==
        "nacre: f2VxQ9 hello: rank 1 on n3 (pid 4711) killed by SIGSEGV (core dumped) 12.4 s after its start\n"
        "nacre:   last of its stderr:   | one\n"
        "nacre:                         | assertion `p != NULL' failed\n"
        "nacre: lost: 7 | SIGSEGV: 1 | ended because of it: 0,2-6\n"
        "nacre: exit code 139 (policy max: the cause)\n");
}

TEST_CASE("a task that has ended the job itself is named with what it did") {
  CHECK(cause_with({{"record", "c/s15"}, {"message", "rank 1 on n3 called PMI_Abort with code 7"}})
            .starts_with("called PMI_Abort with code 7\n"));
  CHECK(cause_with({{"record", "c"}, {"message", "it was enough"}})
            .starts_with("has ended the job: it was enough\n"));
  CHECK(cause_with({{"record", "c/s15"}, {"message", "no task has done anything; rank 1 spins"}})
            .starts_with("seems to be why the job hangs: no task has done anything; rank 1 spins\n"));
}

TEST_CASE("why tasks that have failed did not start again is a line of its own") {
  CHECK(cause_with({{"record", "x3"}, {"message", "restart: 2 restarts have brought no progress since noon"}})
            .find("\nnacre:   not started again: 2 restarts have brought no progress since noon\n") !=
        std::string::npos);
}

TEST_CASE("that hang-watch has killed a task is a line of its own") {
  CHECK(cause_with({{"record", "s9"}, {"hang", "no task has done anything; rank 1 spins"}})
            .find("\nnacre:   killed by hang-watch: no task has done anything; rank 1 spins\n") !=
        std::string::npos);
}

TEST_CASE("what its last words say is told in plain words, where that is known") {
  CHECK(
      cause_with({{"record", "x3"}, {"reason", "gpu-memory"}}).find("\nnacre:   this says: out of GPU memory\n") !=
      std::string::npos);
  for (const Json& other : {Json("gpu"), Json(7)})
    CHECK(cause_with({{"record", "x3"}, {"reason", other}}).find("this says") == std::string::npos);
}

TEST_CASE("a cause that is not proved is named with the doubt") {
  constexpr const char* kAnother = "its start; its last words speak of another, so it may not be the first\n";
  CHECK(cause_with({{"origin", "peer"}, {"certain", false}, {"after", "3"}}).find(kAnother) != std::string::npos);
  CHECK(cause_with({{"origin", "own"}, {"certain", true}}).find("its start\n") != std::string::npos);
  CHECK(cause_with({{"origin", 7}, {"certain", 7}}).find("its start\n") != std::string::npos);
}

TEST_CASE("a report of one task has no list of tasks, and names its file") {
  Json report = crash();
  report["job"]["tasks"] = 1;
  report["file"] = "/tmp/r.json";
  report["cause"] = {{"rank", 0}, {"record", "x3"}};
  CHECK(report_text(report) ==
        "nacre: f2VxQ9 hello: rank 0 exited with code 3\n"
        "nacre: exit code 139 (policy max: the cause); the report: /tmp/r.json\n");
}

TEST_CASE("a report says what is known of the cause") {
  Json details = {{"error", {{"message", {{"message", "ValueError: 7\nat line 3"}}}}},
                  {"oom", {{"kills", 2}, {"limit", 536870912}, {"certain", false}}},
                  {"core", {{"dumped", true}, {"file", "/tmp/core.4711"}}},
                  {"after", "3-4"}};
  std::string text = cause_with(details);
  CHECK(text.find("its start; task 3-4 failed at about the same time\n") != std::string::npos);
  CHECK(text.find("\nnacre:   its error: ValueError: 7\n") != std::string::npos);
  CHECK(text.find("\nnacre:   perhaps out of memory: its cgroup has had 2 kills by the kernel, limit 512 MiB\n") !=
        std::string::npos);
  CHECK(text.find("\nnacre:   core dump: /tmp/core.4711\n") != std::string::npos);
  CHECK(cause_with({{"oom", {{"kills", 1}, {"certain", true}}}})
            .find("  out of memory: its cgroup has had 1 kill by") != std::string::npos);
  CHECK(cause_with({{"core", {{"handler", "/lib/systemd-coredump"}}}}).find("given to /lib/systemd-coredump") !=
        std::string::npos);
  CHECK(cause_with({{"core", {{"pattern", "core"}}}}).find("not found by the kernel's core_pattern, 'core'") !=
        std::string::npos);
  CHECK(cause_with({{"error", "text"}}).find("its error: \"text\"") != std::string::npos);
  CHECK(cause_with({{"core", {{"file", "/tmp/core.1"}, {"module", "/opt/a/libsolve.so.2"}}}})
            .find("core dump: /tmp/core.1 (in libsolve.so.2)") != std::string::npos);
}

TEST_CASE("how far the cause was with PMI") {
  auto line_of = [](const Json& pmi) {
    std::string text = cause_with({{"pmi", pmi}});
    std::size_t at = text.find("\nnacre:   ");
    return at == std::string::npos ? "" : text.substr(at + 10, text.find('\n', at + 1) - at - 10);
  };
  CHECK(line_of({{"by", "PMI-1"}, {"state", "connected"}, {"barrier", 3}, {"last", "barrier_in"}}) ==
        "PMI-1: in barrier 3");
  CHECK(line_of({{"by", "PMI-2"}, {"state", "connected"}, {"last", "kvs-put"}}) ==
        "PMI-2: after init, its last request: kvs-put");
  CHECK(line_of({{"by", "PMIx"}, {"state", "connected"}}) == "PMIx: after init");
  CHECK(line_of({{"by", "PMI-1"}, {"state", "none"}}) == "PMI-1: without init, which others have called");
  CHECK(line_of({{"by", "PMI-1"}, {"state", "finalized"}}) == "PMI-1: finalized");
  CHECK(line_of({{"by", "PMIx"}, {"state", "aborted"}}) == "PMIx: has called abort");
  CHECK(line_of(7).empty());
}

TEST_CASE("tasks that failed in several ways are told apart by module and last line") {
  Json report = crash();
  report["classes"] = {
      {{"record", "x0"}, {"ranks", "9"}},
      {{"record", "s11+"}, {"ranks", "0-3"}, {"module", "/opt/libsolve.so.2"}, {"last", "no\x1b way"}},
      {{"record", "s11+"}, {"ranks", "4"}, {"module", "libm.so.6"}},
      {{"record", "x1"}, {"ranks", "5"}, {"last", "no"}},
      {{"record", "x1"}, {"ranks", "6-8"}}};
  std::string text = report_text(report);
  CHECK(text.find("nacre: SIGSEGV: 0-4 | exit code 1: 5-8 | exit code 0: 9\n"
                  "nacre:   0-3: SIGSEGV in libsolve.so.2, after: no\\x1b way\n"
                  "nacre:   4: SIGSEGV in libm.so.6\n"
                  "nacre:   5: exit code 1, after: no\n"
                  "nacre: exit code 139") != std::string::npos);
  for (int i = 0; i < 20; ++i)
    report["classes"].push_back(
        {{"record", "x1"}, {"ranks", std::to_string(100 + i)}, {"last", std::to_string(i)}});
  CHECK(report_text(report).find("\nnacre:   15 other ways\n") != std::string::npos);
  report["classes"] = {{{"record", "x1"}, {"ranks", "0-9"}, {"last", "no"}}};  // the last words of the cause
  CHECK(report_text(report).find("after: no") == std::string::npos);
}

TEST_CASE("processes that have outlived their tasks are named") {
  Json report = crash();
  report["left"]["processes"] = {{{"pid", 12}, {"name", "sleep"}, {"rank", 3}, {"host", "n1"}},
                                 {{"pid", 13}, {"name", "a\nb"}}};
  std::string text = report_text(report);
  CHECK(text.substr(text.find("nacre: outlived")) ==
        "nacre: outlived their tasks, and were ended: sleep (pid 12, of task 3 on n1), a\\x0ab (pid 13)\n"
        "nacre: exit code 139 (policy max: the cause)\n");
  for (int i = 0; i < 5; ++i) report["left"]["processes"].push_back({{"pid", 20 + i}, {"name", "x"}});
  report["left"]["more"] = 10;
  CHECK(report_text(report).find("x (pid 21), and 13 more\n") != std::string::npos);
  report["left"]["processes"] = 3;
  CHECK(report_text(report).find("outlived") == std::string::npos);
}

TEST_CASE("the last line of what a task has written") {
  CHECK(exits::last_line_of("a\nb\n\n") == "b");
  CHECK(exits::last_line_of("a\r\n") == "a");
  CHECK(exits::last_line_of("").empty());
  CHECK(exits::last_line_of(std::string(1000, 'x')).size() == 160);
}

TEST_CASE("each kind of end has its words") {
  CHECK(cause_with({{"record", "x3"}}).starts_with("exited with code 3 12.4 s after"));
  CHECK(cause_with({{"record", "f127"}, {"started", 0}}).starts_with("could not be started\n"));
  CHECK(cause_with({{"record", "f126"}}).starts_with("could not be executed"));
  CHECK(cause_with({{"record", "t/x0"}}).starts_with("ended because it was over the time limit"));
  CHECK(cause_with({{"record", "l"}, {"shell", 4}}).starts_with("lost with shell 4"));
}

TEST_CASE("what a program writes cannot command the terminal, or fill the screen") {
  Json report = crash();
  std::string lines;
  for (int i = 0; i < 30; ++i) lines += std::to_string(i) + std::string(500, 'x') + "\n";
  report["cause"]["stderr"] = lines + "\x1b[2J\x07 gone\r\n";
  std::string text = report_text(report);
  CHECK(std::count(text.begin(), text.end(), '\n') == 11);
  CHECK(text.find("| \\x1b[2J\\x07 gone\n") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  for (int i = 0; i < 40; ++i)
    report["classes"].push_back({{"record", "x" + std::to_string(i + 1)}, {"ranks", std::to_string(100 + i)}});
  std::string ranks = "1000";
  for (int i = 1002; i < 1100; i += 2) ranks += "," + std::to_string(i);
  report["classes"][0]["ranks"] = ranks;
  text = report_text(report);
  CHECK(text.find(" other ways\n") != std::string::npos);
  CHECK(text.size() < 4000);
}

TEST_CASE("a report of a job that is listed ends with how to see it again") {
  auto last_line = [](const Json& report, std::string_view listed) {
    std::string text = report_text(report, listed);
    return text.substr(text.rfind('\n', text.size() - 2) + 1);
  };
  Json report = crash();
  CHECK(last_line(report, "f2VxQ9") ==
        "nacre: exit code 139 (policy max: the cause); see it again: nacre report f2VxQ9\n");
  CHECK(last_line(report, "") == "nacre: exit code 139 (policy max: the cause)\n");
  report["file"] = "/tmp/r.json";
  CHECK(
      last_line(report, "f2VxQ9") ==
      "nacre: exit code 139 (policy max: the cause); the report: /tmp/r.json; see it again: nacre report f2VxQ9\n");
}

TEST_CASE("a report that is none gives a text all the same") {
  CHECK(report_text(nullptr) == "nacre: exit code 0 (policy : )\n");
  CHECK(report_text({{"cause", {{"record", 7}, {"stderr", 1}}}, {"job", 3}, {"classes", "x"}, {"exit", {1}}}) ==
        "nacre: exit code 0 (policy : )\n");
}

TEST_CASE("hosts and tasks that were slow have a line each, of a job that has succeeded too") {
  Json report = crash();
  CHECK(exits::slow_lines(report).empty());
  report["timeline"] = {{{"event", "slow"}, {"text", "n3 is slow: its ranks 12-15 do less"}},
                        {{"event", "end"}, {"text", "no"}},
                        {{"event", "slow"}, {"text", "n3 is as fast as the others again"}}};
  const std::string lines =
      "nacre: while it ran: n3 is slow: its ranks 12-15 do less\n"
      "nacre: while it ran: n3 is as fast as the others again\n";
  CHECK(exits::slow_lines(report) == lines);
  CHECK(report_text(report).find("\n" + lines + "nacre: exit code 139") != std::string::npos);
  for (int i = 0; i < 10; ++i) report["timeline"].push_back({{"event", "slow"}, {"text", "more"}});
  CHECK(exits::slow_lines(report).ends_with(
      "nacre: while it ran: more\nnacre: while it ran: 4 more of this kind, see the report as JSON\n"));
}
