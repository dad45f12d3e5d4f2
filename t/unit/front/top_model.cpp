// SPDX-License-Identifier: Apache-2.0
#include "front/top_view.hpp"

#include "catch.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::front;  // NOLINT

namespace {

PsTask task_row(std::uint32_t rank, std::uint32_t shell, double time, double cpu_seconds, std::int64_t pid = 100) {
  PsTask out;
  out.rank = rank;
  out.shell = shell;
  out.host = "n" + std::to_string(shell);
  out.pid = pid + rank;
  out.state = "R";
  out.time = time;
  out.cpu = cpu_seconds / time;
  out.rss = 1000;
  out.command = "sleep";
  return out;
}

TopSample sample(std::vector<PsTask> tasks, std::vector<std::string> late = {}) {
  TopSample out;
  out.status = {"fABC", "job", 4, 2, tasks.size(), 1000, false, {"n0", "n1"}};
  out.tasks = std::move(tasks);
  out.late = std::move(late);
  return out;
}

}  // namespace

TEST_CASE("nodes are those of the job, also where none of their tasks runs") {
  TopModel model;
  CHECK(model.empty());
  model.take(sample({task_row(2, 1, 10, 5), task_row(3, 1, 10, 10)}), 1010);
  REQUIRE(model.nodes().size() == 2);
  CHECK(model.nodes()[0].host == "n0");
  CHECK(model.nodes()[0].tasks == 0);
  CHECK(model.nodes()[1].tasks == 2);
  CHECK(model.nodes()[1].cpu == Catch::Approx(1.5));
  CHECK(model.nodes()[1].rss == 2000);
  CHECK(model.cpu() == Catch::Approx(1.5));
  CHECK(model.time() == 10);
}

TEST_CASE("shells that have left are no nodes any more") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 5), task_row(3, 1, 10, 10)}), 1010);
  TopSample after = sample({task_row(0, 0, 12, 5)});
  after.status.gone = value::Idset::range(1, 1);
  model.take(after, 1012);
  REQUIRE(model.nodes().size() == 1);
  CHECK(model.nodes()[0].host == "n0");
  CHECK(model.json(false).at("nnodes") == 1);
}

TEST_CASE("CPU use is that since the sample before") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 10)}), 1010);
  CHECK(model.cpu() == Catch::Approx(1));
  model.take(sample({task_row(0, 0, 12, 10.5)}), 1012);
  CHECK(model.cpu() == Catch::Approx(0.25));
  SECTION("children that are gone take their time with them") {
    model.take(sample({task_row(0, 0, 14, 3)}), 1014);
    CHECK(model.cpu() == 0);
  }
  SECTION("another process of the same rank begins anew") {
    model.take(sample({task_row(0, 0, 14, 7, 500)}), 1014);
    CHECK(model.cpu() == Catch::Approx(0.5));
  }
  SECTION("two samples at once") {
    model.take(sample({task_row(0, 0, 12, 12)}), 1012);
    CHECK(model.cpu() == Catch::Approx(1));
  }
}

TEST_CASE("a shell that is late keeps its tasks, and has the time since its last answer") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 1), task_row(1, 1, 10, 1)}), 1010);
  CHECK(!model.nodes()[1].late);
  model.take(sample({task_row(0, 0, 12, 1)}, {"n1"}), 1012);
  REQUIRE(model.tasks().size() == 2);
  CHECK(model.nodes()[1].tasks == 1);
  CHECK(model.nodes()[1].late == 2.0);
  model.take(sample({task_row(0, 0, 15, 1)}, {"n1"}), 1015);
  CHECK(model.nodes()[1].late == 5.0);
  model.take(sample({task_row(0, 0, 16, 1)}), 1016);
  CHECK(!model.nodes()[1].late);
  CHECK(model.tasks().size() == 1);
}

TEST_CASE("a task that has ended is gone") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 1), task_row(1, 0, 10, 1)}), 1010);
  model.take(sample({task_row(1, 0, 12, 1)}), 1012);
  REQUIRE(model.tasks().size() == 1);
  CHECK(model.tasks()[0].rank == 1);
}

TEST_CASE("answers of a leader: what is wrong is named") {
  Json status{{"id", "f1"},   {"name", "a"},    {"tasks", 2},      {"shells", 2},
              {"running", 2}, {"started", 1.5}, {"ending", false}, {"state", "running"}};
  CHECK(TopStatus::parse(status)->hosts.empty());
  status["hosts"] = "n[0-1]";
  CHECK(TopStatus::parse(status)->hosts == std::vector<std::string>{"n0", "n1"});
  status["hosts"] = "n[0-";
  CHECK(TopStatus::parse(status).error().message.starts_with("hosts: "));
  status.erase("tasks");
  CHECK(TopStatus::parse(status).error().message.find("tasks") != std::string::npos);

  Json exits{{"exits",
              {{{"record", "x0"}, {"count", 5}},
               {{"record", "x3"}, {"count", 2}},
               {{"record", "c/s15"}, {"count", 9}},
               {{"record", "s11"}, {"count", 1}}}}};
  CHECK(TopSample::failed_of(exits) == 3U);
  exits["exits"].push_back({{"record", "others"}, {"count", 10}});
  CHECK(TopSample::failed_of(exits) == 13U);
  exits["exits"][0]["record"] = "?";
  CHECK(TopSample::failed_of(exits).error().message.starts_with("exits[0].record: "));
  CHECK(TopSample::late_of({{"late", {"n1"}}})->size() == 1);
  CHECK(TopSample::late_of(Json::object())->empty());
  CHECK(!TopSample::late_of({{"late", 1}}));
}

TEST_CASE("a line of JSON has the nodes, and the tasks if they are wanted") {
  TopModel model;
  model.take(sample({task_row(0, 0, 10, 5)}, {"n1"}), 1010);
  Json line = model.json(false);
  CHECK(line["nodes"].size() == 2);
  CHECK(line["nodes"][0]["late"].is_null());
  CHECK(line["nodes"][1]["late"] == 0.0);
  CHECK(line["cpu"] == Catch::Approx(0.5));
  CHECK(!line.contains("tasks"));
  CHECK(model.json(true)["tasks"][0]["pid"] == 100);
}
