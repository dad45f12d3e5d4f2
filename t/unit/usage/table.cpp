// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "base/json.hpp"
#include "sample_rows.hpp"
#include "usage/table.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::usage;  // NOLINT

namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;

UsageTable table_of(const std::vector<TaskRow>& rows) {
  UsageTable out;
  out.add(UsageBatch{rows, {}, {}});
  return out;
}

Json summary_of(const std::vector<TaskRow>& rows) { return table_of(rows).summary(rows.size(), {}, two_hosts()); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a summary has the least, the median and the most, with who they are of") {
  std::vector<TaskRow> rows;
  for (std::uint32_t rank = 0; rank < 8; ++rank) rows.push_back(row_of(rank, rank == 3 ? 0.5 : 1 + 0.01 * rank));
  Json wall = summary_of(rows)["measures"]["wall"];
  CHECK(wall["n"] == 8);
  CHECK(wall["min"] == Json{{"value", 0.5}, {"rank", 3}, {"host", "n0"}});
  CHECK(wall["max"]["rank"] == 7);
  CHECK(wall["max"]["host"] == "n1");
  CHECK(wall["median"].get<double>() == Catch::Approx(1.03));
  CHECK(wall["sum"].get<double>() == Catch::Approx(7.75));
}

TEST_CASE("of equal values the lowest rank is named, in whatever order they come") {
  Json summary = summary_of({row_of(5), row_of(2), row_of(7)});
  CHECK(summary["measures"]["wall"]["min"]["rank"] == 2);
  CHECK(summary["measures"]["wall"]["max"]["rank"] == 2);
}

TEST_CASE("peaks of memory are not added") {
  Json measures = summary_of({row_of(0), row_of(1)})["measures"];
  CHECK_FALSE(measures["maxrss"].contains("sum"));
  CHECK(measures["cpu"]["sum"].get<double>() == Catch::Approx(1.5));
}

TEST_CASE("bounds of memory: of the least, the median and the most") {
  std::vector<TaskRow> rows;
  for (std::uint32_t rank = 0; rank < 5; ++rank) rows.push_back(row_of(rank, 1, (10 + rank) * kMebibyte));
  rows[1].is_bound = true;
  Json memory = summary_of(rows)["measures"]["maxrss"];
  CHECK(memory["min"]["is_bound"] == true);  // task 1 may have used less than task 0
  CHECK_FALSE(memory.contains("median_is_bound"));
  CHECK_FALSE(memory["max"].contains("is_bound"));
  rows[2].is_bound = true;
  CHECK(summary_of(rows)["measures"]["maxrss"]["median_is_bound"] == true);
  for (TaskRow& each : rows) each.is_bound = true;
  std::string text = summary_text(summary_of(rows), "");
  CHECK(has(text, "max RSS   <=10.0M  0 on n0  <=12.0M  <=14.0M  4 on n1\n"));
}

TEST_CASE("who is farther than three deviations off is named, small differences are not") {
  std::vector<TaskRow> rows;
  for (std::uint32_t rank = 0; rank < 8; ++rank) rows.push_back(row_of(rank, 1 + 0.01 * (rank % 3)));
  CHECK(summary_of(rows)["outliers"].empty());
  rows[6] = row_of(6, 9, 900 * kMebibyte);
  Json outliers = summary_of(rows)["outliers"];
  REQUIRE(outliers.size() == 3);
  for (const Json& each : outliers) CHECK(each.at("rank") == 6);
  CHECK(outliers[0]["measure"] == "maxrss");  // the farthest
  std::string text = summary_text(summary_of(rows), "nacre: ");
  CHECK(has(text, "nacre: far from the others: task 6 on n1: max RSS 900.0M (median 10.0M), time 9.000s (median "));
}

TEST_CASE("many equal values have no deviation: a tenth of the median, and a least gap, make an outlier") {
  std::vector<TaskRow> rows;
  for (std::uint32_t rank = 0; rank < 8; ++rank) rows.push_back(row_of(rank, 10, 100 * kMebibyte));
  rows[1] = row_of(1, 10.9, 100 * kMebibyte);
  CHECK(summary_of(rows)["outliers"].empty());
  rows[1] = row_of(1, 11.1, 100 * kMebibyte);
  CHECK(summary_of(rows)["outliers"].size() == 2);  // time and cpu
  for (TaskRow& each : rows) each = row_of(each.rank, 0.001);
  rows[1] = row_of(1, 0.02);
  CHECK(summary_of(rows)["outliers"].empty());
  rows.resize(4);
  rows[1] = row_of(1, 1000);
  CHECK(summary_of(rows)["outliers"].empty());  // too few to tell
}

TEST_CASE("not more than sixteen outliers are named") {
  std::vector<TaskRow> rows;
  for (std::uint32_t rank = 0; rank < 100; ++rank) rows.push_back(row_of(rank, rank < 20 ? 50.0 + rank : 1.0));
  Json summary = summary_of(rows);
  CHECK(summary["outliers"].size() == kMostOutliers);
  CHECK(summary["outliers_left_out"] == 2 * 20 - kMostOutliers);
  CHECK(has(summary_text(summary, ""), "and 24 more values far from the others\n"));
}

TEST_CASE("totals of shells, merged in any order, are those of all rows") {
  std::vector<TaskRow> rows;
  Totals all, even, odd;
  for (std::uint32_t rank = 0; rank < 50; ++rank) {
    TaskRow row = row_of(rank, 0.5 + (rank * 37 % 50), (1 + rank * 13 % 50) * kMebibyte);
    row.is_bound = rank % 7 == 0;
    all.add(row);
    (rank % 2 == 0 ? even : odd).add(row);
  }
  TaskRow unstarted;
  unstarted.rank = 50;
  for (Totals* each : {&all, &odd}) each->add(unstarted);
  Totals one = even, other = odd;
  one.merge(odd);
  other.merge(even);
  CHECK(one == all);
  CHECK(other == all);
  CHECK(all.ended == 50);
  CHECK(all.unstarted == 1);
}

TEST_CASE("of totals alone there is a summary too: the median is at most the end of its bucket") {
  UsageTable table;
  for (std::uint32_t shell = 0; shell < 2; ++shell) {
    UsageBatch batch;
    batch.node = NodeRow{shell, 50, 1, std::nullopt, std::nullopt};
    batch.totals.emplace();
    for (std::uint32_t rank = 0; rank < 50; ++rank) batch.totals->add(row_of(50 * shell + rank, 3));
    table.add(batch);
    table.add(batch);  // only the first counts
  }
  Json summary = table.summary(100, {}, two_hosts());
  CHECK(summary["ended"] == 100);
  const Json& wall = summary["measures"]["wall"];
  CHECK(wall.at("n") == 100);
  CHECK_FALSE(wall.contains("median"));
  CHECK(wall.at("median_at_most") == 3);
  CHECK(wall.at("histogram").size() == 1);
  CHECK(wall.at("histogram")[0][1] == 100);
  CHECK(wall.at("histogram")[0][0].get<double>() <= 3);
  CHECK(summary["outliers"].empty());
  CHECK(has(summary_text(summary, ""), "<=3.000s"));
}

TEST_CASE("a bucket has values from its start to twice that") {
  const Measure& wall = measures()[0];
  for (double value : {1e-6, 3e-6, 0.5, 1.0, 12345.678}) {
    Spread spread;
    spread.add(value, row_of(0), wall);
    std::size_t bucket = 0;
    while (spread.buckets().at(bucket) == 0) ++bucket;
    CHECK(Spread::start_of(bucket, wall) <= value);
    CHECK(Spread::start_of(bucket + 1, wall) > value);
  }
  Spread zero;
  zero.add(0, row_of(0), wall);
  CHECK(zero.buckets()[0] == 1);
  CHECK(zero.median_at_most(wall) == 0);
}

TEST_CASE("the first row of a rank counts, and those that are missing are named") {
  UsageTable table = table_of({row_of(1, 5)});
  table.add(UsageBatch{{row_of(1, 6)}, {}, {}});
  CHECK(table.rows().at(1).wall == 5);
  CHECK(table.ranks().str() == "1");
  Json summary = table.summary(3, value::Idset::range(2, 2), two_hosts());
  CHECK(summary["missing"] == "2");
  CHECK(has(summary_text(summary, ""),
            "usage: 1 of 3 tasks ended, 3.750s of cpu time; not known, as their shell is lost or late: 2\n"));
}

TEST_CASE("a summary that is too long loses its largest parts") {
  UsageTable table;
  for (std::uint32_t shell = 0; shell < 2000; ++shell) table.add(UsageBatch{{}, NodeRow{shell, 1, 1, {}, {}}, {}});
  for (std::uint32_t rank = 0; rank < 8; ++rank) table.add(UsageBatch{{row_of(rank)}, {}, {}});
  Json summary = table.summary(8, {}, two_hosts());
  CHECK(fitting_summary(summary, 1 << 20) == summary);
  Json kept = fitting_summary(summary);
  CHECK(dump_json(kept).size() <= kMostKept);
  CHECK(kept["shortened"] == true);
  CHECK(kept["measures"]["wall"]["median"] == 1);
  CHECK_FALSE(kept.contains("nodes"));
  CHECK(has(summary_text(kept, ""), "(shortened: it was too long to be kept)\n"));
  CHECK(dump_json(fitting_summary(summary, 200)).size() <= 200);
}

TEST_CASE("all measures of a job fit into what the list of jobs keeps") {
  std::vector<TaskRow> rows;
  for (std::uint32_t rank = 0; rank < 1000; ++rank) {
    TaskRow row = row_of(rank, 1.0 / (rank + 3), rank * rank * 4096);
    row.io = TaskIo{rank * 12345, rank * 54321, rank * 4096, rank * 8192};
    row.gpu = TaskGpu{rank * 123456, (rank % 100) / 100.0};
    row.minor_faults = row.major_faults = row.blocks_in = row.blocks_out = row.voluntary = row.involuntary = rank;
    rows.push_back(row);
  }
  Hosts hosts{[](std::uint32_t) { return std::string(64, 'h'); },
              [](std::uint32_t) { return std::string(64, 'h'); }};
  Json kept = fitting_summary(table_of(rows).summary(1000, {}, hosts));
  CHECK(dump_json(kept).size() <= kMostKept);
  CHECK(kept["measures"].size() == kMeasures);
}

TEST_CASE("text of what was not measured: totals only, and how more is known") {
  Json used{{"tasks", 4},    {"ended", 3}, {"cpu", 1.5}, {"maxrss", 20 << 20}, {"maxrss_is_bound", true},
            {"missing", "2"}};
  CHECK(is_unmeasured(used));
  CHECK(
      summary_text(used, "") ==
      "usage: 3 of 4 tasks ended, 1.500s of cpu time, max RSS of the largest <=20.0M; not known, as their shell is "
      "lost or late: 2\nmore is known of a job that is started with --usage, or -o usage\n");
  CHECK_FALSE(is_unmeasured(summary_of({row_of(0, 1)})));
}

TEST_CASE("text of a summary that is none") {
  CHECK(summary_text(Json(), "") == "usage: 0 of 0 tasks ended\n");
  Json odd =
      Json::parse(R"({"measures": {"wall": 3, "cpu": {"max": {"value": "x"}}}, "outliers": [1, {"measure": "wall"}],
    "nodes": [null, {"host": "a\u001b[2J"}], "missing": 7})");
  std::string text = summary_text(odd, "");
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(has(text, "a?[2J"));
  CHECK(rows_text(Json()).empty());
  CHECK(has(rows_text(Json::array({Json::object()})), "0"));
}

namespace {

Json summary_of_tasks(std::uint32_t tasks, std::size_t cells = kMostCells, double last = 2) {
  UsageBatch batch;
  for (std::uint32_t rank = 0; rank < tasks; ++rank)
    batch.rows.push_back(row_of(rank, rank + 1 == tasks ? last : 1));
  UsageTable table;
  table.add(batch);
  return table.summary(tasks, {}, two_hosts(), cells);
}

std::size_t svg_count(const std::string& text, const std::string& part) {
  std::size_t out = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++out;
  return out;
}

bool svg_has(const std::string& text, const std::string& part) { return svg_count(text, part) > 0; }

}  // namespace

TEST_CASE("a measure by rank has a value for each task, or for neighbours") {
  Json one = summary_of_tasks(1)["measures"]["wall"]["by_rank"];
  CHECK(one == Json{{"ranks", 1}, {"max", {2.0}}});
  Json few = summary_of_tasks(5, 32)["measures"]["wall"]["by_rank"];
  CHECK(few == Json{{"ranks", 1}, {"max", {1.0, 1.0, 1.0, 1.0, 2.0}}});
  Json many = summary_of_tasks(5, 2)["measures"]["wall"]["by_rank"];
  CHECK(many == Json{{"ranks", 3}, {"max", {1.0, 2.0}}, {"min", {1.0, 1.0}}});
  CHECK(summary_of_tasks(512)["measures"]["wall"]["by_rank"]["max"].size() == 512);
  CHECK(summary_of_tasks(513)["measures"]["wall"]["by_rank"]["max"].size() == 257);
}

TEST_CASE("values by rank have four digits, and none where nothing is known") {
  UsageTable table;
  table.add(UsageBatch{{row_of(0, 1.23456, 123'456'789), row_of(2, 0.000123456)}, {}, {}});
  Json measures = table.summary(4, {}, two_hosts())["measures"];
  CHECK(dump_json(measures["wall"]["by_rank"]["max"]) == "[1.235,null,0.0001235,null]");
  CHECK(dump_json(measures["maxrss"]["by_rank"]["max"][0]) == "123500000");
  CHECK_FALSE(measures["minor_faults"].contains("by_rank"));
  CHECK_FALSE(measures["system"].contains("by_rank"));
}

TEST_CASE("what is too long to be kept loses its measures by rank first, and says nothing of it") {
  Json summary = summary_of_tasks(64, 32);
  std::size_t whole = dump_json(summary).size();
  Json shorter = fitting_summary(summary, whole - 1);
  CHECK_FALSE(shorter["measures"]["wall"].contains("by_rank"));
  CHECK(shorter["measures"]["wall"].contains("histogram"));
  CHECK_FALSE(shorter.contains("shortened"));
}

TEST_CASE("block characters are as high as the value, in a column behind the others") {
  Json summary = summary_of_tasks(3, 32, 0.5);
  std::string text = summary_text(summary, "", true);
  CHECK(svg_has(text, "RANKS 0-2\n"));
  CHECK(svg_has(text, "  \u2588\u2588\u2584\n"));
  CHECK_FALSE(svg_has(summary_text(summary, ""), "RANKS"));
  summary["measures"]["wall"]["by_rank"]["max"][1] = nullptr;
  CHECK(svg_has(summary_text(summary, "", true), "  \u2588 \u2584\n"));
  for (Json& each : summary["measures"]) each.erase("by_rank");
  CHECK(summary_text(summary, "", true) == summary_text(summary, ""));
}

TEST_CASE("a picture has a panel for each measure and a bar for each task") {
  for (std::uint32_t tasks : {1, 2, 64, 512}) {
    std::string svg = svg_of(summary_of_tasks(tasks), "job");
    CHECK(svg_count(svg, "<title>rank ") == 4 * tasks);  // time, cpu, max RSS, output
    CHECK(svg_count(svg, "class=\"m\"") == 4);
    CHECK(svg_has(svg, "time: min "));
    CHECK(svg.ends_with("</svg>\n"));
  }
  CHECK(svg_count(svg_of(summary_of_tasks(513), "job"), "<title>ranks ") == 4 * 256);
}

TEST_CASE("who is far from the others is red") {
  std::string svg = svg_of(summary_of_tasks(16, kMostCells, 9), "job");
  CHECK(svg_count(svg, "class=\"f\"") == 2);  // time and cpu
  CHECK(svg_has(svg, "<title>rank 15: 9.000s</title><rect class=\"f\""));
  CHECK(svg_count(svg_of(summary_of_tasks(16, 4, 9), "job"), "class=\"f\"") == 2);
}

TEST_CASE("without values by rank a picture has how many tasks have which") {
  Json summary = summary_of_tasks(16);
  for (Json& each : summary["measures"]) each.erase("by_rank");
  std::string svg = svg_of(summary, "job");
  CHECK(svg_has(svg, "tasks by their value"));
  CHECK(svg_has(svg, "<title>from "));
}

TEST_CASE("any text is text in a picture, and any JSON makes one") {
  CHECK(svg_has(svg_of(summary_of_tasks(1), "a <b> & \"c\"\x1b\xff"),
                "a &lt;b&gt; &amp; &quot;c&quot;\\x1b\\xff</title>"));
  for (const char* text :
       {"null", "[]", "{}", R"({"tasks": -1, "measures": 3})",
        R"({"measures": {"wall": {"max": {"value": 1}, "by_rank": {"ranks": 0, "max": [1]}}}})",
        R"({"measures": {"wall": {"max": {"value": 1}, "by_rank": {"ranks": 1, "max": ["x", -3]}}}})",
        R"({"measures": {"wall": {"max": {"value": 1}, "histogram": [1, [2], ["a", 1]]}}})"}) {
    std::string svg = svg_of(Json::parse(text), "");
    CHECK(svg.ends_with("</svg>\n"));
    CHECK_FALSE(svg_has(svg, "nan"));
  }
}
