// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "base/json.hpp"
#include "sample_rows.hpp"
#include "usage/gpu.hpp"
#include "usage/measure.hpp"
#include "usage/table.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::usage;  // NOLINT

namespace {

TaskRow full_row() {
  TaskRow out;
  out.rank = 7;
  out.started = 1700000000.25;
  out.wall = 12.5;
  out.status = value::WaitStatus::killed(9);
  rusage usage{};
  usage.ru_utime = {3, 250000};
  usage.ru_stime = {1, 500000};
  usage.ru_maxrss = 2048;
  usage.ru_minflt = 1;
  usage.ru_majflt = 2;
  usage.ru_inblock = 3;
  usage.ru_oublock = 4;
  usage.ru_nvcsw = 5;
  usage.ru_nivcsw = 6;
  out.take(usage, std::uint64_t{2048} << 10);
  out.io = TaskIo{10, 20, 30, 40};
  out.out = 50;
  out.err = 60;
  out.command = "./a b";
  return out;
}

}  // namespace

TEST_CASE("a row comes out as it was sent, with and without what is not known") {
  for (bool is_known : {true, false}) {
    UsageBatch batch;
    batch.rows.push_back(full_row());
    if (!is_known) {
      batch.rows[0].started.reset();
      batch.rows[0].io.reset();
      batch.rows[0].out.reset();
      batch.rows[0].command.clear();
    }
    batch.node = NodeRow{3, 2, 1.5, std::nullopt, 4};
    if (is_known) {
      batch.totals.emplace();
      batch.totals->add(row_of(1));
    }
    CHECK(UsageBatch::parse(batch.text()).value() == batch);
  }
}

TEST_CASE("a row takes about 100 bytes on its way") {
  TaskRow row = full_row();
  row.command.clear();
  CHECK(dump_json(row.wire()).size() < 120);
}

TEST_CASE("a batch that is none is refused") {
  for (const char* text : {"", "[]", "{}", R"({"rows":1})", R"({"rows":[[1,2]]})", R"({"rows":[],"node":[1]})",
                           R"({"rows":[],"totals":{"ended":1,"unstarted":0,"spreads":[]}})",
                           R"({"rows":[[-1,null,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,null]]})",
                           R"({"rows":[[1,null,0,65536,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,null]]})"})
    CHECK_FALSE(UsageBatch::parse(text));
  CHECK(UsageBatch::parse(R"({"rows":[[1,null,0,65535,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,null]]})"));
}

TEST_CASE("memory is a bound where it is not more than the shell's was") {
  TaskRow row;
  rusage usage{};
  usage.ru_maxrss = 5000;
  row.take(usage, std::uint64_t{5000} << 10);
  CHECK(row.is_bound);
  row.take(usage, std::uint64_t{4999} << 10);
  CHECK_FALSE(row.is_bound);
}

TEST_CASE("a row as JSON leaves out what is not known") {
  Json json = full_row().json("n1");
  CHECK(json["host"] == "n1");
  CHECK(json["signal"] == 9);
  CHECK_FALSE(json.contains("code"));
  CHECK(json["user"] == 3.25);
  CHECK(json["maxrss"] == 2097152);
  CHECK(json["maxrss_is_bound"] == true);
  CHECK(json["written_bytes"] == 40);
  TaskRow unstarted;
  unstarted.status = value::WaitStatus::exited(127);
  CHECK(unstarted.json("n1") == Json{{"rank", 0}, {"host", "n1"}, {"code", 127}, {"started", nullptr}});
  CHECK_FALSE(row_of(1).json("").contains("read_bytes"));
}

TEST_CASE("i/o is read from the kernel's text, which has to be complete") {
  const std::string text =
      "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
  CHECK(TaskIo::parse(text) == TaskIo{1, 2, 5, 6});
  CHECK_FALSE(TaskIo::parse(text.substr(10)));
  CHECK_FALSE(TaskIo::parse("rchar: x\nwchar: 2\nread_bytes: 5\nwrite_bytes: 6\n"));
  CHECK_FALSE(TaskIo::parse(""));
}

TEST_CASE("a line of a joblog has nine columns whatever the command") {
  TaskRow row = full_row();
  CHECK(joblog_line(row, "n1", "sh -c 'a\n\tb'") ==
        "8\tn1\t1700000000.250\t    12.500\t0\t110\t0\t9\tsh -c 'a  b'\n");
  row = row_of(0);
  row.status = value::WaitStatus::exited(3);
  CHECK(joblog_line(row, "", "x") == "1\t:\t1000000000.000\t     1.000\t0\t100\t3\t0\tx\n");
}

TEST_CASE("a command line is quoted where a shell would not read it as it is") {
  CHECK(command_line({"a", "b c", "", "d'e", "/x-1_2.3:4=5,6@7%8+9", "$f"}) ==
        "a 'b c' '' 'd'\\''e' /x-1_2.3:4=5,6@7%8+9 '$f'");
}

TEST_CASE("a joblog is read as it was written") {
  TaskRow row = row_of(1);
  row.status = value::WaitStatus::killed(9);
  std::string text = joblog_head() + joblog_line(row, "n1", "a\tb") + joblog_line(row_of(0), "n1", "c");
  auto entries = parse_joblog(text).value();
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].rank == 1);
  CHECK(entries[0].status == value::WaitStatus::killed(9));
  CHECK(entries[0].is_of("a\tb"));
  CHECK_FALSE(entries[0].is_of("a"));
  CHECK(entries[1].rank == 0);
  CHECK(parse_joblog("").value().empty());
  CHECK(parse_joblog(joblog_head()).value().empty());

  CHECK(parse_joblog(text.substr(0, text.size() - 1)).error().message ==
        "line 3 is cut off: remove it, and its task runs again");
  CHECK(parse_joblog("x\n").error().message ==
        "line 1: expected the names of a joblog's columns: Seq, Host, Starttime ...");
  for (const char* bad : {"1\tn\n", "0\tn\t1\t1\t0\t0\t0\t0\tc\n", "1\tn\t1\t1\t0\t0\t256\t0\tc\n",
                          "1\tn\t1\t1\t0\t0\t0\t65\tc\n", "\n"}) {
    INFO(bad);
    CHECK_THAT(parse_joblog(joblog_head() + bad).error().message,
               Catch::Matchers::StartsWith("line 2: expected the nine columns of a joblog"));
  }
}

// The bytes of the shells' messages to the leader about what tasks have used.

namespace {

TaskRow measured_row() {
  TaskRow out;
  out.rank = 7;
  out.started = 1700000000.25;
  out.wall = 1.5;
  out.status = value::WaitStatus::killed(9);
  out.user = 0.25;
  out.system = 0.125;
  out.max_rss = 4096;
  out.is_bound = true;
  out.minor_faults = 1;
  out.major_faults = 2;
  out.blocks_in = 3;
  out.blocks_out = 4;
  out.voluntary = 5;
  out.involuntary = 6;
  out.io = TaskIo{10, 20, 30, 40};
  out.has_cgroup = true;
  out.oom_kills = 1;
  out.out = 100;
  out.err = 0;
  return out;
}

}  // namespace

TEST_CASE("the texts of rows of tasks and nodes") {
  TaskRow plain;
  CHECK(dump_json(plain.wire()) == "[0,null,0,0,0,0,0,0,0,0,0,0,0,0,null,null,null,null,null,null,0,null]");
  TaskRow row = measured_row();
  CHECK(dump_json(row.wire()) ==
        "[7,1700000000250000,1500000,9,250000,125000,4096,1,1,2,3,4,5,6,100,0,10,20,30,40,1,1]");
  CHECK(TaskRow::parse(row.wire()).value() == row);
  row.command = "a b";
  CHECK(dump_json(row.wire()) ==
        R"([7,1700000000250000,1500000,9,250000,125000,4096,1,1,2,3,4,5,6,100,0,10,20,30,40,1,1,"a b"])");
  CHECK(TaskRow::parse(row.wire()).value() == row);
  row.gpu = TaskGpu{1024, 0.5};
  row.command = "";
  CHECK(dump_json(row.wire()) ==
        R"([7,1700000000250000,1500000,9,250000,125000,4096,1,1,2,3,4,5,6,100,0,10,20,30,40,1,1,"",[1024,50)"
        "0]]");
  CHECK(TaskRow::parse(row.wire()).value() == row);
  Json more = row.wire();
  more.push_back(1);
  CHECK(TaskRow::parse(more).value() == row);
  CHECK_FALSE(TaskRow::parse(Json::array({1, 2})));
  CHECK_FALSE(TaskRow::parse(Json::object()));
  more[1] = "x";
  CHECK_FALSE(TaskRow::parse(more));

  NodeRow node{3, 8, 2.5, 1000, std::nullopt};
  CHECK(dump_json(node.wire()) == "[3,8,2500000,1000,null]");
  CHECK(NodeRow::parse(node.wire()).value() == node);
  node.gpus = {{"nvidia", 1, "GPU-1", 5, 6, 0.25}, {"amd", 0, "card0", {}, {}, {}}};
  CHECK(dump_json(node.wire()) ==
        R"([3,8,2500000,1000,null,[["nvidia",1,"GPU-1",5,6,250],["amd",0,"card0",null,null,null]]])");
  CHECK(NodeRow::parse(node.wire()).value() == node);
  Json wrong = node.wire();
  wrong[5][0][5] = 1001;
  CHECK_FALSE(NodeRow::parse(wrong));
  wrong[5][0][5] = nullptr;
  CHECK(NodeRow::parse(wrong));
  wrong[5] = Json::array();
  for (std::size_t i = 0; i <= NodeGpu::kMost; ++i) wrong[5].push_back(node.wire()[5][0]);
  CHECK(NodeRow::parse(wrong).error().message.find("has too many devices") != std::string::npos);
}

TEST_CASE("the texts of totals and batches") {
  Totals totals;
  totals.add(measured_row());
  CHECK(dump_json(totals.wire()) ==
        R"({"ended":1,"spreads":[[1,1.5,[1.5,7,0],[1.5,7,0],[[21,1]]],[1,0.375,[0.375,7,0],[0.375,7,0],[[19)"
        ",1]]],[1,0.25,[0.25,7,0],[0.25,7,0],[[18,1]]],[1,0.125,[0.125,7,0],[0.125,7,0],[[17,1]]],[1,0.0,"
        "[4096.0,7,1],[4096.0,7,1],[[13,1]]],[1,1.0,[1.0,7,0],[1.0,7,0],[[1,1]]],[1,2.0,[2.0,7,0],[2.0,7,"
        "0],[[2,1]]],[1,3.0,[3.0,7,0],[3.0,7,0],[[2,1]]],[1,4.0,[4.0,7,0],[4.0,7,0],[[3,1]]],[1,5.0,[5.0,"
        "7,0],[5.0,7,0],[[3,1]]],[1,6.0,[6.0,7,0],[6.0,7,0],[[3,1]]],[1,30.0,[30.0,7,0],[30.0,7,0],[[5,1]"
        "]],[1,40.0,[40.0,7,0],[40.0,7,0],[[6,1]]],[1,10.0,[10.0,7,0],[10.0,7,0],[[4,1]]],[1,20.0,[20.0,7"
        R"(,0],[20.0,7,0],[[5,1]]],[1,100.0,[100.0,7,0],[100.0,7,0],[[7,1]]]],"unstarted":0})");
  CHECK(Totals::parse(totals.wire()).value() == totals);
  UsageBatch batch;
  CHECK(batch.text() == R"({"rows":[]})");
  batch.rows = {measured_row()};
  batch.node = NodeRow{3, 8, 2.5, 1000, std::nullopt};
  batch.totals = Totals();
  batch.totals->unstarted = 2;
  CHECK(batch.text() ==
        R"({"node":[3,8,2500000,1000,null],"rows":[[7,1700000000250000,1500000,9,250000,125000,4096,1,1,2,3)"
        R"(,4,5,6,100,0,10,20,30,40,1,1]],"totals":{"ended":0,"spreads":[[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,)"
        "0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0"
        ",[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0"
        ".0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,"
        "0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0"
        R"(],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]],[0,0.0,[0.0,0,0],[0.0,0,0],[]]],"unstarted":2}})");
  CHECK(UsageBatch::parse(batch.text()).value().text() == batch.text());
  CHECK(UsageBatch::parse(R"({"rows":[[1,2]]})").error().message.find("rows[0]: expected a task's row") !=
        std::string::npos);
}
