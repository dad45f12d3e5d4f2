// SPDX-License-Identifier: Apache-2.0
#include "exits/notice.hpp"

#include "catch.hpp"

#include <numeric>
#include <random>

#include <fmt/format.h>

#include "exits/record.hpp"
#include "fewer.hpp"

using namespace nacre::exits;  // NOLINT
using nacre::Result;
using nacre::value::Idset;
using Ids = std::vector<Idset::Id>;

namespace {

struct Dice {
  explicit Dice(std::uint32_t seed) : engine(seed) {}
  std::uint32_t below(std::uint32_t most) { return static_cast<std::uint32_t>(engine() % most); }
  std::mt19937 engine;
};

Notice notice_of(std::uint64_t tasks, Notice::Classes classes, bool end = false) {
  Notice out;
  out.seq = 1;
  out.tasks = tasks;
  out.end = end;
  out.classes = std::move(classes);
  for (const auto& [name, ranks] : out.classes) out.done += name == kNoRecord ? 0 : ranks.size();
  out.leave_out_largest();
  return out;
}

std::string text_of(const Notice& notice) {
  std::vector<std::string> lines = notice.encode();
  REQUIRE(lines.size() == 1);
  return lines[0];
}

// Each rank one of these classes.
Notice::Classes random_classes(std::uint32_t tasks, std::uint32_t classes, Dice& random) {
  std::vector<Ids> ids(classes);
  for (std::uint32_t rank = 0; rank < tasks; ++rank) ids[random.below(classes)].push_back(rank);
  Notice::Classes out;
  for (std::uint32_t i = 0; i < classes; ++i) {
    std::string name = i < 256 ? fmt::format("x{}", i) : fmt::format("s{}+", i - 255);
    if (!ids[i].empty()) out.emplace(name, Idset::of(ids[i]));
  }
  return out;
}

NoticeMap map_of(const std::vector<std::string>& lines) {
  NoticeMap map;
  for (const std::string& each : lines) {
    auto notice = Notice::decode(each);
    REQUIRE(notice);
    auto taken = map.take(*notice);
    INFO((taken ? "" : taken.error().message));
    REQUIRE(taken);
  }
  return map;
}

}  // namespace

TEST_CASE("of 10,000 tasks, one crash and the rest ended because of it are under 80 bytes") {
  Notice notice =
      notice_of(10000, {{"s11", Idset::range(1, 1)}, {"c", Idset::range(0, 9999) - Idset::range(1, 1)}}, true);
  CHECK(text_of(notice) == R"({"seq":1,"n":10000,"d":"c","x":{"s11":"1"},"end":1})"
                           "\n");
  notice.seq = 64;
  notice.classes = {{"s11+", Idset::range(9998, 9998)}};
  notice.rest = "c/s15";
  notice.summary = NoticeSummary{139};
  CHECK(text_of(notice).size() <= 80);
}

TEST_CASE("10,000 tasks of all codes at random are under 27 KB") {
  Dice random(1);
  for (std::uint32_t classes : {256U, 300U, 380U}) {
    Notice notice = notice_of(10000, random_classes(10000, classes, random), true);
    std::string text = text_of(notice);
    CHECK(text.size() < 27000);
    CHECK(text.find("\"x\":[") != std::string::npos);
    CHECK(Notice::decode(text).value() == notice);
  }
}

TEST_CASE("very many tasks come in parts of less than 64 KiB") {
  Dice random(2);
  for (auto [tasks, classes] : {std::pair(nacre::kit::fewer(1000000U, 4U), 256U), std::pair(500000U, 2U)}) {
    Notice::Classes all = random_classes(tasks, classes, random);
    std::vector<std::string> lines = notice_of(tasks, all, true).encode();
    CHECK(lines.size() > 1);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CHECK(lines[i].size() <= Notice::kMaxPart);
      CHECK(Notice::decode(lines[i])->more == (i + 1 < lines.size()));
    }
    NoticeMap map = map_of(lines);
    CHECK(map.records() == all);
    CHECK(map.ended());
  }
}

TEST_CASE("each class is an idset or a bitmap, whichever is shorter") {
  Ids odd(400);
  for (std::size_t i = 0; i < odd.size(); ++i) odd[i] = static_cast<Idset::Id>(1001 + 2 * i);
  Notice notice =
      notice_of(10000, {{"x3", Idset::of(odd)}, {"x4", Idset::range(5, 9)}, {"r", Idset::range(4000, 9999)}});
  CHECK(notice.rest == "r");
  std::string text = text_of(notice);
  CHECK(text.find(R"("x":{"x3":"@1001:VVVV)") != std::string::npos);
  CHECK(text.find(R"(,"x4":"5-9"})") != std::string::npos);
  CHECK(Notice::decode(text).value() == notice);
}

TEST_CASE("a notice that is read is the one that was written") {
  Dice random(3);
  for (int i = 0; i < 300; ++i) {
    std::uint32_t tasks = 1 + random.below(2000);
    Notice notice = notice_of(tasks, random_classes(tasks, 1 + random.below(40), random), random.below(2) == 0);
    notice.seq = 1 + random.below(1000);
    notice.base = random.below(2) == 0;
    if (random.below(2) == 0) notice.open = Idset::range(random.below(tasks), tasks - 1);
    if (random.below(2) == 0) notice.cut = Idset::range(0, random.below(tasks));
    if (random.below(2) == 0) notice.first = random.below(tasks);
    if (random.below(2) == 0) notice.attempt = 1 + random.below(3);
    if (random.below(2) == 0)
      notice.summary = NoticeSummary{139, "main+all", 3, NoticeCodes{random.below(tasks), 0, 139, 0.25}};
    if (random.below(3) == 0) notice.summary = NoticeSummary{7};
    auto again = Notice::decode(text_of(notice));
    INFO((again ? "" : again.error().message));
    REQUIRE(again);
    REQUIRE(*again == notice);
  }
}

TEST_CASE("parts have open, cut and classes of their ranks; what comes once is in the last one") {
  Dice random(4);
  Notice notice = notice_of(20000, random_classes(20000, 30, random), true);
  Notice::Classes half = random_classes(20000, 2, random);
  notice.open = half.begin()->second;
  notice.cut = half.rbegin()->second;
  notice.first = 7;
  notice.summary = NoticeSummary{29, "", {}, NoticeCodes{19000, 0, 29, 14.5}};
  std::vector<std::string> lines = notice.encode(4096);
  CHECK(lines.size() > 5);
  Idset open;
  Idset cut;
  for (const std::string& each : lines) {
    CHECK(each.size() <= 4096);
    Notice part = Notice::decode(each).value();
    open = open | part.open;
    cut = cut | part.cut;
    CHECK(part.first.has_value() == !part.more);
    CHECK(part.summary.has_value() == !part.more);
    CHECK(part.end);
  }
  CHECK(open == notice.open);
  CHECK(cut == notice.cut);
  NoticeMap map = map_of(lines);
  CHECK(map.ranks() == Idset::range(0, 19999));
}

TEST_CASE("unknown members are passed over") {
  auto notice =
      Notice::decode(R"({"seq":4,"n":3,"done":1,"d":"r","x":{"x0":"2"},"end":0,"later":{"y":[1]},"mood":"fine"})");
  REQUIRE(notice);
  CHECK(notice->classes == Notice::Classes{{"x0", Idset::range(2, 2)}});
  CHECK_FALSE(notice->summary);
}

TEST_CASE("a bad notice is one clear error") {
  struct Bad {
    const char* text;
    const char* why;
  };
  const Bad all[] = {
      {"", "line 1"},
      {"[]", "expected"},
      {R"({"n":3,"done":1,"d":"r","x":{},"end":0})", "seq"},
      {R"({"seq":0,"n":3,"done":1,"d":"r","x":{},"end":0})", "seq: expected"},
      {R"({"seq":1,"n":4294967297,"done":1,"d":"r","x":{},"end":0})", "n: expected"},
      {R"({"seq":1,"n":3,"done":4,"d":"r","x":{},"end":0})", "done: expected"},
      {R"({"seq":1,"n":3,"done":1,"d":"x","x":{},"end":0})", "d: expected a record"},
      {R"({"seq":1,"n":3,"done":1,"d":"x00","x":{},"end":0})", "d: expected a record"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":7,"end":0})", "x: expected"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{"y":"1"},"end":0})", "expected a record"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{"x1":"3"},"end":0})", "expected ranks below 3"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{"x1":"2-1"},"end":0})", "x.x1"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{"x1":"1","x2":"0-1"},"end":0})", "another class has"},
      {R"({"seq":1,"n":3,"done":1,"d":"x1","x":{"x1":"1"},"end":0})", "which d names"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{"x1":"@1"},"end":0})", "@FIRST:BASE64"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{"x1":"@0:?"},"end":0})", "@FIRST:BASE64"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{"x1":"@0:/w=="},"end":0})", "expected ranks below 3"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":[0,["x1"]],"end":0})", "[FIRST, [CLASS, ...], BASE64]"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":[0,[],""],"end":0})", "expected a class"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":[0,["x1","x1"],""],"end":0})", "is there twice"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":[0,["x1","x2"],"/w=="],"end":0})", "a class 3 of 2"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":[2,["x1"],"Aw=="],"end":0})", "expected ranks below 3"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{},"end":2})", "end: expected"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{}})", "end"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{},"end":0,"open":"5"})", "open"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{},"end":0,"first":3})", "first"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{},"end":0,"code":256})", "code"},
      {R"({"seq":1,"n":3,"done":1,"d":"r","x":{},"end":0,"code":1,"policy":"most"})", "policy"},
      {R"({"seq":1,"n":3,"d":"r","x":{},"end":0})", "done"},
      {R"({"seq":1,"n":3,"d":"x0","x":{},"end":1,"code":1,"failed":4,"min":0,"max":1,"mean":1})", "failed"},
      {R"({"seq":1,"n":3,"d":"x0","x":{},"end":1,"code":1,"failed":1,"min":0,"max":1})", "mean"},
  };
  for (const Bad& each : all) {
    INFO(each.text);
    auto notice = Notice::decode(each.text);
    REQUIRE_FALSE(notice);
    INFO(notice.error().message);
    CHECK(notice.error().message.starts_with("notice: "));
    CHECK(notice.error().message.find(each.why) != std::string::npos);
    CHECK(notice.error().message.find('\n') == std::string::npos);
  }
}

TEST_CASE("a client takes what follows what it has, and nothing else") {
  auto read = [](const char* text) { return Notice::decode(text).value(); };
  NoticeMap map;
  CHECK_FALSE(map.take(read(R"({"seq":2,"n":4,"done":1,"d":"r","x":{"x3":"1"},"end":0})")));
  CHECK_FALSE(map.take(read(R"({"seq":1,"n":4,"done":2,"d":"r","x":{"x3":"1"},"end":0})")));
  CHECK(map.seq() == 0);
  REQUIRE(map.take(read(R"({"seq":1,"n":4,"done":1,"d":"r","x":{"x3":"1"},"end":0})")));
  CHECK_FALSE(map.take(read(R"({"seq":2,"n":4,"done":2,"d":"r","x":{"x0":"0-1"},"end":0})")));
  REQUIRE(map.take(read(R"({"seq":2,"n":4,"d":"x0","x":{},"end":1})")));
  CHECK(map.records() == Notice::Classes{{"x3", Idset::range(1, 1)}, {"x0", *Idset::parse("0,2-3")}});
  CHECK(map.ended());
  CHECK_FALSE(map.take(read(R"({"seq":3,"n":4,"done":4,"d":"x0","x":{},"end":1})")));
  REQUIRE(map.take(read(R"({"seq":3,"n":4,"done":4,"d":"x9","x":{},"end":1,"base":1})")));
  CHECK(map.records() == Notice::Classes{{"x9", Idset::range(0, 3)}});
}

TEST_CASE("parts of which the rest never comes are dropped") {
  Dice random(6);
  Notice::Classes all = random_classes(20000, 30, random);
  std::vector<std::string> lines = notice_of(20000, all, true).encode(4096);
  NoticeMap map;
  REQUIRE(map.take(Notice::decode(lines[0]).value()));
  REQUIRE(map.take(Notice::decode(lines[1]).value()));
  CHECK_FALSE(map.take(Notice::decode(lines[1]).value()));
  CHECK(map.ranks().empty());
  map.drop_parts();
  for (const std::string& each : lines) REQUIRE(map.take(Notice::decode(each).value()));
  CHECK(map.records() == all);
}
