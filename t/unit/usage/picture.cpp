// SPDX-License-Identifier: Apache-2.0
#include "usage/table.hpp"

#include "catch.hpp"

#include "base/json.hpp"
#include "sample_rows.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::usage;  // NOLINT

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
