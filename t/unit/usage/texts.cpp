// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the shells' messages to the leader about what tasks have used.
#include "catch.hpp"

#include "base/json.hpp"
#include "usage/gpu.hpp"
#include "usage/measure.hpp"
#include "usage/table.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::usage;  // NOLINT

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
