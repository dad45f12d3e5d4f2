// SPDX-License-Identifier: Apache-2.0
#include "usage/measure.hpp"

#include "catch.hpp"

#include "base/json.hpp"
#include "sample_rows.hpp"
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
