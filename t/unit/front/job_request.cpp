// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include "catch.hpp"

#include "front/job_request.hpp"
#include "job/jobspec.hpp"

using namespace nacre;
using namespace nacre::front;

namespace {

constexpr auto kNone = std::nullopt;

JobSize sized(SizeRequest request, std::optional<std::uint32_t> places) { return size_of(request, places).value(); }

std::string size_error(SizeRequest request, std::optional<std::uint32_t> places) {
  auto out = size_of(request, places);
  REQUIRE_FALSE(out);
  return out.error().message;
}

}  // namespace

TEST_CASE("without a number of tasks there is one, or one a node where nodes were asked for") {
  CHECK(sized({}, 1) == JobSize{1, 1, kNone});
  CHECK(sized({}, 4) == JobSize{1, 1, kNone});
  CHECK(sized({kNone, 3, kNone}, 4) == JobSize{3, 3, 1});
  CHECK(sized({kNone, kNone, 2}, 4) == JobSize{8, 4, 2});
  CHECK(sized({kNone, 3, 2}, 4) == JobSize{6, 3, 2});
}

TEST_CASE("on places that are named there are as many tasks as were asked for with them, or one on each") {
  auto open = [](SizeRequest request, std::uint32_t places, std::optional<std::uint32_t> tasks) {
    return sized(size_of_places(request, places, tasks), places);
  };
  CHECK(open({}, 4, kNone) == JobSize{4, 4, 1});
  CHECK(open({}, 4, 9) == JobSize{9, 4, kNone});
  CHECK(open({}, 4, 2) == JobSize{2, 2, kNone});
  CHECK(open({kNone, kNone, kNone, 1}, 4, kNone) == JobSize{3, 3, 1, 1});
  for (SizeRequest given : {SizeRequest{1, kNone, kNone}, {kNone, 2, kNone}, {kNone, kNone, 2}})
    CHECK(open(given, 4, 9) == sized(given, 4));
  CHECK(size_error(size_of_places({kNone, kNone, kNone, 4}, 4, 9), 4).starts_with("--spares=4, but there are 4"));
}

TEST_CASE("tasks go to all places, as far as there are tasks") {
  CHECK(sized({4, kNone, kNone}, 1) == JobSize{4, 1, kNone});
  CHECK(sized({4, kNone, kNone}, 2) == JobSize{4, 2, kNone});
  CHECK(sized({2, kNone, kNone}, 4) == JobSize{2, 2, kNone});
  CHECK(sized({5, 2, kNone}, 4) == JobSize{5, 2, kNone});
  CHECK(sized({6, 2, kNone}, 4) == JobSize{6, 2, 3});
  CHECK(sized({5, kNone, 2}, 4) == JobSize{5, 3, 2});
}

TEST_CASE("more tasks than the nodes have of N each: nodes get N in turn") {
  CHECK(sized({3, kNone, 2, 0, true}, 1) == JobSize{3, 1, kNone});
  CHECK(sized({3, kNone, 2, 0, true}, 2) == JobSize{3, 2, 2});
  CHECK(sized({7, kNone, 2, 0, true}, 2) == JobSize{7, 2, kNone});
  using Counts = std::vector<std::uint32_t>;
  CHECK(fill_slots({2, 2}, 2) == Counts{2});
  CHECK(fill_slots({2, 2}, 3) == Counts{2, 1});
  CHECK(fill_slots({1, 3}, 7) == Counts{3, 4});
  CHECK(fill_slots({2, 0, 2}, 4) == Counts{2, 1, 1});
  CHECK(map_of_rounds(sized({7, kNone, 2, 0, true}, 2), 2) == "0-1,4-5;2-3,6");
  CHECK(map_of_rounds(sized({3, kNone, 1, 0, true}, 2), 1) == "0,2;1");
  CHECK(size_error({3, kNone, 2}, 1).starts_with("-n 3, but 1 node of 2 tasks are 2"));
}

TEST_CASE("outside of an allocation as many nodes as are asked for") {
  CHECK(sized({kNone, 8, kNone}, kNone) == JobSize{8, 8, 1});
  CHECK(sized({4, kNone, kNone}, kNone) == JobSize{4, 1, kNone});
}

TEST_CASE("numbers that do not go together are refused with the remedy") {
  CHECK(size_error({kNone, 3, kNone}, 2) ==
        "-N 3, but there are 2 nodes: a smaller -N, more hosts (--hosts), or --local=3 for all on this one");
  CHECK(size_error({kNone, 3, kNone}, 1) ==
        "-N 3, but there is 1 node: a smaller -N, more hosts (--hosts), or --local=3 for all on this one");
  CHECK(size_error({1, 2, kNone}, 2) == "-n 1, but -N 2: each node needs a task");
  CHECK(size_error({9, kNone, 2}, 4) ==
        "-n 9, but 4 nodes of 2 tasks are 8: a smaller -n, a larger --tasks-per-node, or more nodes");
  CHECK(size_error({kNone, 1024, 1U << 20}, 1024).ends_with("tasks; at most 16777216"));
}

TEST_CASE("spares are nodes beside those with tasks") {
  CHECK(sized({kNone, 4, kNone, 1}, 5) == JobSize{4, 4, 1, 1});
  CHECK(sized({kNone, 4, kNone, 1}, kNone) == JobSize{4, 4, 1, 1});
  CHECK(sized({8, kNone, kNone, 2}, 5) == JobSize{8, 3, kNone, 2});
  CHECK(sized({2, kNone, kNone, 1}, 5) == JobSize{2, 2, kNone, 1});
  CHECK(sized({kNone, kNone, 2, 1}, 3) == JobSize{4, 2, 2, 1});
  CHECK(JobSize{4, 4, 1, 1}.shells() == 5);
  CHECK(size_error({kNone, 4, kNone, 1}, 4) ==
        "-N 4+1, but there are 4 nodes: a smaller -N, more hosts (--hosts), or --local=5 for all on this one");
  CHECK(size_error({4, kNone, kNone, 3}, 3) ==
        "--spares=3, but there are 3 nodes: at least one has to be left for tasks");
  CHECK(size_error({kNone, kNone, kNone, 1}, 1) ==
        "--spares=1, but there is 1 node: at least one has to be left for tasks");
  JobRequest request;
  request.command = {"a"};
  request.cwd = "/";
  request.size = {4, 4, 1, 1};
  CHECK(job::Jobspec::from_json(jobspec_of(request).value()).value().nodes == 5);
}

TEST_CASE("of a range there are as many nodes as there are places, and the jobspec has the range") {
  SizeRequest wanted;
  wanted.nodes = 4;
  wanted.least_nodes = 2;
  wanted.tasks_per_node = 3;
  CHECK(size_of(wanted, 8).value().nodes == 4);
  CHECK(size_of(wanted, {}).value().nodes == 4);
  JobSize size = size_of(wanted, 3).value();
  CHECK(size.tasks == 9);
  CHECK(size_of(wanted, 1).error().message ==
        "-N 2:4, but there is 1 node: a smaller -N, more hosts (--hosts), or --local=2 for all on this one");
  JobRequest request;
  request.command = {"a"};
  request.cwd = "/";
  request.size = size;
  auto spec = job::Jobspec::from_json(jobspec_of(request).value()).value();
  REQUIRE(spec.node_counts);
  CHECK(spec.node_counts->str() == "2:4");
  CHECK(spec.slots_per_node == 3);
  request.at_most = 1;
  CHECK(jobspec_of(request).error().message.starts_with("--at-most, but -N is a range"));
  wanted.spares = 1;
  CHECK(size_of(wanted, 4).error().message.starts_with("-N 2:4 and spares"));
  wanted.spares = 0;
  wanted.tasks = 4;
  CHECK(size_of(wanted, 4).error().message ==
        "-n 4, but -N 2:4: the number of tasks follows that of nodes: give --tasks-per-node instead");
}

TEST_CASE("-N is a number of nodes, one with spares, or a range") {
  CHECK(NodeCounts::parse("4").value().nodes == 4);
  CHECK_FALSE(NodeCounts::parse("4").value().spares);
  CHECK(NodeCounts::parse("4+1").value().nodes == 4);
  CHECK(NodeCounts::parse("4+1").value().spares == 1);
  CHECK(NodeCounts::parse("4+0").value().spares == 0);
  for (const char* text : {"", "+", "+1", "4+", "4+x", "x", "4+1+1", "-4", "4+-1", "4 + 1"}) {
    INFO(text);
    CHECK(NodeCounts::parse(text).error().message.starts_with(
        "expected a number of nodes, NODES+SPARES as in 4+1, or MIN:MAX as in 2:8, got "));
  }
  for (const char* text : {":", "2:", ":8", "2:8+1", "2:8:9", "2-8:2", "x:8"}) {
    INFO(text);
    CHECK(NodeCounts::parse(text).error().message.ends_with(std::string("as in 2:8, got '") + text + "'"));
  }
  CHECK(NodeCounts::parse("2:8").value().nodes == 8);
  CHECK(NodeCounts::parse("2:8").value().least == 2);
  CHECK_FALSE(NodeCounts::parse("4:4").value().least);
  CHECK(NodeCounts::parse("8:2").error().message == "MIN is larger than MAX in 8:2");
  CHECK(NodeCounts::parse("0:2").error().message == "at least 1 node");
  CHECK(NodeCounts::parse("0").error().message == "at least 1 node");
  CHECK(NodeCounts::parse("1+18446744073709551615").error().message.ends_with("got 1+18446744073709551615"));
  CHECK(NodeCounts::parse("18446744073709551615+1").error().message.ends_with("got 18446744073709551615+1"));
}

TEST_CASE("a jobspec of what was asked for is one that the shell reads") {
  JobRequest request;
  request.command = {"a", "b c"};
  request.size = {5, 2, 3};
  request.cores_per_task = 2;
  request.gpus_per_task = 1;
  request.duration = 90;
  request.name = "mine";
  request.cwd = "/tmp";
  request.environment = {{"A", "1"}};
  request.options = Json{{"label-io", true}};
  auto spec = job::Jobspec::from_json(jobspec_of(request).value()).value();
  CHECK(spec.command == request.command);
  CHECK(spec.nodes == 2);
  CHECK(spec.slots_per_node == 3);
  CHECK(spec.tasks() == 5);
  CHECK(spec.cores_per_slot == 2);
  CHECK(spec.gpus_per_slot == 1);
  CHECK(spec.duration == 90);
  CHECK(spec.cwd == "/tmp");
  CHECK(spec.environment == std::vector<std::pair<std::string, std::string>>{{"A", "1"}});
  CHECK(spec.options == request.options);
  CHECK(spec.document["attributes"]["system"]["job"]["name"] == "mine");
  request.size = {7, 2, kNone};
  spec = job::Jobspec::from_json(jobspec_of(request).value()).value();
  CHECK_FALSE(spec.nodes);
  CHECK(spec.slots == 7);
  CHECK(spec.tasks() == 7);
}

TEST_CASE("what a jobspec cannot have is refused") {
  JobRequest request;
  request.cwd = "/";
  request.command = {"a", "\xff"};
  CHECK(jobspec_of(request).error().message == "argument 1: '\xff' is no UTF-8, which a jobspec has to be");
  request.command = {"a"};
  request.options = {{"arguments", {"a", "b\xff"}}};
  CHECK(jobspec_of(request).error().message == "the list: 'b\xff' is no UTF-8, which a jobspec has to be");
  request.options = {{"wrap", {{{"command", {"\xff"}}}}}};
  CHECK(jobspec_of(request).error().message == "the option wrap: '\xff' is no UTF-8, which a jobspec has to be");
  request.options = {{"output", {{"stdout", {{"path", "\xff"}}}}}};
  CHECK_FALSE(jobspec_of(request));
  request.options = Json::object();
  request.name = "\xff";
  CHECK(jobspec_of(request).error().message == "--name: '\xff' is no UTF-8, which a jobspec has to be");
  request.name = "";
  request.command = {std::string(job::Jobspec::kMaxArgument, 'x')};
  CHECK(jobspec_of(request).error().message.starts_with("tasks[0].command[0]: "));
}

TEST_CASE("a time limit is a number of minutes, or a time") {
  CHECK(time_limit_of("2").value() == 120);
  CHECK(time_limit_of("90s").value() == 90);
  CHECK(time_limit_of("1.5h").value() == 5400);
  CHECK(time_limit_of("infinity").value() == 0);
  CHECK(time_limit_of("1:30").value() == 90);
  CHECK(time_limit_of("1:00:00").value() == 3600);
  CHECK(time_limit_of("2-0").value() == 2 * 86400);
  CHECK(time_limit_of("1-02:30").value() == 86400 + 2.5 * 3600);
  CHECK(time_limit_of("0-00:00:07").value() == 7);
  CHECK(time_limit_of("soon").error().message ==
        "expected minutes, or a time as 90s, 15m, 1.5h or 1:30:00, got 'soon'");
  for (const char* text : {"-1", "1:", ":", "1:2:3:4", "1-", "-1:00", "1:-1", "1-1:x"})
    CHECK_FALSE(time_limit_of(text));
}

TEST_CASE("a list is behind :::, or the lines of a file") {
  std::vector<std::string> words{"echo", "{}", ":::", "a", "b c"};
  CHECK(take_list(words).value() == std::vector<std::string>{"a", "b c"});
  CHECK(words == std::vector<std::string>{"echo", "{}"});
  CHECK_FALSE(take_list(words).value());
  put_elements(words);
  CHECK(words == std::vector<std::string>{"echo", "{{task.argument}}"});
  words = {"sh", "-c", "x{}y{}"};
  put_elements(words);
  CHECK(words.back() == "x{{task.argument}}y{{task.argument}}");
  words = {"gzip"};
  put_elements(words);
  CHECK(words == std::vector<std::string>{"gzip", "{{task.argument}}"});

  words = {"echo", ":::"};
  CHECK(take_list(words).error().message ==
        "what is behind ':::' is empty: expected an element of the list for each task");
  words = {"echo", ":::", "a", ":::", "b"};
  CHECK(take_list(words).error().message == "':::': a second list: only one is taken");
  words = {"echo", "::::", "/nonexistent"};
  CHECK(take_list(words).error().message == "'::::': /nonexistent: No such file or directory");
}

TEST_CASE("what a joblog has is not run again") {
  const std::vector<std::string> command{"echo", "{{task.argument}}", "{{task.rank}}"}, list{"a", "b", "c"}, none;
  auto line = [](int seq, int code, const std::string& of) {
    return fmt::format("{}\tn\t1\t1\t0\t0\t{}\t0\t{}\n", seq, code, of);
  };
  const std::string head = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";
  const std::string log = head + line(3, 4, "echo c 2") + line(1, 0, "echo a 0");
  CHECK(ended_before(log, {command, list, 3, false}).value() == Json{{"x0", "0"}, {"x4", "2"}});
  CHECK(ended_before(log, {command, list, 3, true}).value() == Json{{"x0", "0"}});
  CHECK(ended_before(log + line(3, 0, "echo c 2"), {command, list, 3, false}).value() == Json{{"x0", "0,2"}});
  std::string killed = line(2, 0, "echo b 1");
  killed.replace(killed.find("\t0\t0\techo"), 4, "\t0\t15");  // as the job ended
  CHECK(ended_before(log + killed, {command, list, 3, false}).value() == Json{{"x0", "0"}, {"x4", "2"}});
  CHECK(ended_before(head, {command, list, 3, false}).value() == Json::object());
  CHECK(ended_before(log, {none, none, 3, false}).value().size() == 2);  // the job's command is not known, so rows
                                                                         // of any command count

  CHECK(ended_before(log, {command, list, 2, false}).error().message ==
        "it has a line of Seq 3, and the job has 2 tasks: it is another job's");
  CHECK(ended_before(head + line(2, 0, "echo x 1"), {command, list, 3, false}).error().message ==
        "Seq 2 is of the command 'echo x 1', and is to be 'echo b 1' now: it is another job's");
}

namespace {

const Variables kCaller{{"HOME", "/home/u"},     {"PATH", "/bin"},          {"LANG", "C"},
                        {"LC_ALL", "C"},         {"PMI_RANK", "3"},         {"PMIX_RANK", "3"},
                        {"SLURM_PROCID", "1"},   {"SLURM_STEP_ID", "0"},    {"SLURM_JOB_ID", "7"},
                        {"FLUX_TASK_RANK", "0"}, {"FLUX_URI", "local://x"}, {"OMPI_COMM_WORLD_RANK", "0"}};

Variables after(std::initializer_list<const char*> rules) {
  EnvironmentRules out(kCaller);
  for (const char* each : rules) {
    auto applied = out.apply(each);
    INFO(each);
    REQUIRE(applied);
  }
  return out.job();
}

std::string error_after(const char* rule) {
  EnvironmentRules out(kCaller);
  auto applied = out.apply(rule);
  REQUIRE_FALSE(applied);
  return applied.error().message;
}

}  // namespace

TEST_CASE("the job's environment is the caller's without what an outer launcher has left") {
  CHECK(after({}) == Variables{{"FLUX_URI", "local://x"},
                               {"HOME", "/home/u"},
                               {"LANG", "C"},
                               {"LC_ALL", "C"},
                               {"PATH", "/bin"},
                               {"SLURM_JOB_ID", "7"}});
}

TEST_CASE("what a launcher sets for its tasks is known by its names") {
  for (const char* each :
       {"PMI_FD", "PMIX_NAMESPACE", "SLURM_STEPID", "SLURM_LOCALID", "NACRE_JOB_ID", "NACRE_SHELL_ID",
        "MPI_LOCALRANKID", "FLUX_JOB_SIZE", "OMPI_UNIVERSE_SIZE", "PALS_RANKID"})
    CHECK(is_of_outer_launcher(each));
  for (const char* each :
       {"PMI", "SLURM_JOB_NODELIST", "SLURM_NTASKS", "FLUX_URI", "PATH", "NACRE_JOBS_DIR", "PMIFOO"})
    CHECK_FALSE(is_of_outer_launcher(each));
}

TEST_CASE("rules are applied in their order") {
  CHECK(after({"-*", "PATH"}) == Variables{{"PATH", "/bin"}});
  CHECK(after({"-*", "L*"}) == Variables{{"LANG", "C"}, {"LC_ALL", "C"}});
  CHECK(after({"-*", "/L[AC].*/"}) == Variables{{"LANG", "C"}, {"LC_ALL", "C"}});
  CHECK(after({"-*", "/L/"}).empty());  // the whole name
  CHECK(after({"-*", "NO_SUCH"}).empty());
  CHECK(after({"-*", "A=1", "A=2"}) == Variables{{"A", "2"}});
  CHECK(after({"-*", "A=", "B=x=y"}) == Variables{{"A", ""}, {"B", "x=y"}});
  CHECK(after({"A=1", "-A"}).count("A") == 0);
}

TEST_CASE("what was dropped comes back if it is asked for") {
  CHECK(after({"-*", "PMI_RANK"}) == Variables{{"PMI_RANK", "3"}});
}

TEST_CASE("a value may have variables of the job, else of the caller") {
  CHECK(after({"-*", "P=$PATH:/x"}) == Variables{{"P", "/bin:/x"}});
  CHECK(after({"-*", "A=1", "B=${A}2$A"}) == Variables{{"A", "1"}, {"B", "121"}});
  CHECK(after({"-*", "A=$$x", "B=$", "C=$1", "D=${", "E=${A"}) ==
        Variables{{"A", "$x"}, {"B", "$"}, {"C", "$1"}, {"D", "${"}, {"E", "${A"}});
  CHECK(error_after("A=$NO_SUCH") == "'A=$NO_SUCH': NO_SUCH is not set; write $$ for a dollar sign");
}

TEST_CASE("rules that are none are refused") {
  CHECK(error_after("").starts_with("expected -PATTERN"));
  CHECK(error_after("-") == "expected a name or a pattern, got nothing");
  CHECK(error_after("=x").starts_with("'=x': "));
  CHECK(error_after("-/(/").starts_with("'(' is no regular expression: "));
  CHECK(error_after("^/no/such/file").starts_with("/no/such/file: "));
}

TEST_CASE("a file has a rule a line") {
  EnvironmentRules out(kCaller);
  REQUIRE(out.apply_text("# only these\n-*\n\n  A=1 \r\nPATH\n", "rules"));
  CHECK(out.job() == Variables{{"A", "1"}, {"PATH", "/bin"}});
  auto wrong = out.apply_text("A=1\n^other\n", "rules");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "rules: line 2: a file of rules cannot name another: put its rules here");
}

TEST_CASE("a block's variables; what is none is left out") {
  const char* block[] = {"A=1", "=x", "B", "C=a=b", nullptr};
  CHECK(variables_of(block) == Variables{{"A", "1"}, {"C", "a=b"}});
}

TEST_CASE("variables that are no UTF-8 are left out and named") {
  Variables variables{{"A", "\xc3\xa9"}, {"B", "\xff"}, {"C", "\xed\xa0\x80"}, {"D\x80", ""}, {"E", "\xc0\x80"}};
  CHECK(drop_no_utf8(variables) == std::vector<std::string>{"B", "C", "D\x80", "E"});
  CHECK(variables == Variables{{"A", "\xc3\xa9"}});
}

namespace {

using Words = std::vector<std::string>;

std::string error_of_file(std::string_view text) {
  auto parsed = MultiProg::parse(text);
  INFO(text);
  REQUIRE_FALSE(parsed);
  return parsed.error().message;
}

}  // namespace

TEST_CASE("words are split as a shell does") {
  CHECK(words_of("  a  b\tc ").value() == Words{"a", "b", "c"});
  CHECK(words_of(R"('a b' "c d" e\ f g'h'"i")").value() == Words{"a b", "c d", "e f", "ghi"});
  CHECK(words_of(R"("a\"b\\c\n$x" '\n')").value() == Words{R"(a"b\c\n$x)", R"(\n)"});
  CHECK(words_of(R"('' "")").value() == Words{"", ""});
  CHECK(words_of("a # b").value() == Words{"a"});
  CHECK(words_of("a#b").value() == Words{"a#b"});
  CHECK(words_of("a\\").value() == Words{"a\\"});
  CHECK(words_of("'a").error().message == "the quote ' is not closed");
}

TEST_CASE("a file of programs has ranks and a command a line") {
  auto parsed = MultiProg::parse("# srun's\n0 ./server -p 1\n1-3,5 \\\n  ./worker %t\n\n* idle\n");
  REQUIRE(parsed);
  REQUIRE(parsed->programs.size() == 3);
  CHECK(parsed->programs[0].ranks->str() == "0");
  CHECK(parsed->programs[0].command == Words{"./server", "-p", "1"});
  CHECK(parsed->programs[1].ranks->str() == "1-3,5");
  CHECK(parsed->programs[1].command == Words{"./worker", "%t"});
  CHECK_FALSE(parsed->programs[2].ranks);
  CHECK(parsed->least_tasks() == 6);
  CHECK(parsed->check(6));
  CHECK(parsed->check(60));
  CHECK(parsed->option() == Json::parse(R"([{"command": ["./server", "-p", "1"], "ranks": "0"},
    {"command": ["./worker", "%t"], "ranks": "1-3,5"}, {"command": ["idle"]}])"));
}

TEST_CASE("all tasks, and no others, need a program") {
  auto parsed = MultiProg::parse("0 a\n2 b\n").value();
  CHECK(parsed.check(2).error().message == "rank 2, but the job has 2 tasks: -n 3");
  CHECK(parsed.check(3).error().message == "no program for rank 1: add a line for it, or *");
  CHECK_FALSE(MultiProg::parse("* a\n").value().least_tasks());
}

TEST_CASE("a file of programs that is none says where") {
  CHECK(error_of_file("").starts_with("no program"));
  CHECK(error_of_file("# a\n\n").starts_with("no program"));
  CHECK(error_of_file("0 a\nx b\n") == "line 2: expected ranks, as 0-3,7, or *, got 'x'");
  CHECK(error_of_file("\n0\n") == "line 2: expected a program behind the ranks");
  CHECK(error_of_file("0 ''\n") == "line 1: expected a program behind the ranks");
  CHECK(error_of_file("0-3 a\n2-5 b\n") == "line 2: a line before has rank 2-3 too");
  CHECK(error_of_file("* a\n* b\n") == "line 2: a second *");
  CHECK(error_of_file("0 'a\n") == "line 1: the quote ' is not closed");
  CHECK(error_of_file(std::string_view("0 a\0b\n", 6)) == "line 1: an argument cannot have a NUL");
}
