// SPDX-License-Identifier: Apache-2.0
#include "exits/notice.hpp"

#include <random>

#include "catch.hpp"

#include "exits/record.hpp"
#include "fewer.hpp"
#include "notice_reader.hpp"

using namespace nacre::exits;  // NOLINT
namespace kit = nacre::kit;
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

kit::NoticeMap map_of(const std::vector<std::string>& lines) {
  kit::NoticeMap map;
  for (const std::string& each : lines) {
    auto notice = kit::decode_notice(each);
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
    CHECK(kit::decode_notice(text).value() == notice);
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
      CHECK(kit::decode_notice(lines[i])->more == (i + 1 < lines.size()));
    }
    kit::NoticeMap map = map_of(lines);
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
  CHECK(kit::decode_notice(text).value() == notice);
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
    auto again = kit::decode_notice(text_of(notice));
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
    Notice part = kit::decode_notice(each).value();
    open = open | part.open;
    cut = cut | part.cut;
    CHECK(part.first.has_value() == !part.more);
    CHECK(part.summary.has_value() == !part.more);
    CHECK(part.end);
  }
  CHECK(open == notice.open);
  CHECK(cut == notice.cut);
  kit::NoticeMap map = map_of(lines);
  CHECK(map.ranks() == Idset::range(0, 19999));
}

TEST_CASE("unknown members are passed over") {
  auto notice = kit::decode_notice(
      R"({"seq":4,"n":3,"done":1,"d":"r","x":{"x0":"2"},"end":0,"later":{"y":[1]},"mood":"fine"})");
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
    auto notice = kit::decode_notice(each.text);
    REQUIRE_FALSE(notice);
    INFO(notice.error().message);
    CHECK(notice.error().message.starts_with("notice: "));
    CHECK(notice.error().message.find(each.why) != std::string::npos);
    CHECK(notice.error().message.find('\n') == std::string::npos);
  }
}

TEST_CASE("a client takes what follows what it has, and nothing else") {
  auto read = [](const char* text) { return kit::decode_notice(text).value(); };
  kit::NoticeMap map;
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
  kit::NoticeMap map;
  REQUIRE(map.take(kit::decode_notice(lines[0]).value()));
  REQUIRE(map.take(kit::decode_notice(lines[1]).value()));
  CHECK_FALSE(map.take(kit::decode_notice(lines[1]).value()));
  CHECK(map.ranks().empty());
  map.drop_parts();
  for (const std::string& each : lines) REQUIRE(map.take(kit::decode_notice(each).value()));
  CHECK(map.records() == all);
}

using nacre::value::WaitStatus;

namespace {

Idset ranks(const char* text) { return Idset::parse(text).value(); }
Record exit_of(int code) { return Record::of(WaitStatus::exited(code)); }

struct Job {
  explicit Job(std::uint64_t tasks = 10, std::uint64_t threshold = 1, Policy policy = {})
      : notifier({tasks, std::move(policy), threshold}) {}

  // Notes a failure whose output has come out already.
  void fails(double now, const char* which, int code = 3) {
    notifier.record(now, ranks(which), exit_of(code));
    notifier.drained(now, ranks(which));
  }
  // The messages that the client lacks, one after the other, without their newlines.
  std::vector<std::string> read() {
    std::vector<std::string> out;
    while (auto message = notifier.next(seq)) {
      REQUIRE(message->lines.size() == 1);
      std::string line = message->lines[0];
      REQUIRE(client.take(kit::decode_notice(line).value()));
      seq = message->seq;
      line.pop_back();
      out.push_back(std::move(line));
    }
    return out;
  }

  Notifier notifier;
  kit::NoticeMap client;
  std::uint64_t seq = 0;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("while all succeed nothing is sent but the last message") {
  Job job;
  for (Idset::Id rank = 0; rank < 10; ++rank) {
    job.notifier.record(rank, Idset::range(rank, rank), exit_of(0));
    CHECK_FALSE(job.notifier.due());
    CHECK(job.read().empty());
  }
  job.notifier.end(10, 0);
  CHECK(job.read() == Lines{R"({"seq":1,"n":10,"d":"x0","x":{},"end":1,"code":0})"});
}

TEST_CASE("at the first failure all that is recorded so far is sent, within 0.2 s") {
  Job job;
  job.notifier.record(1, ranks("0-3"), exit_of(0));
  job.fails(5, "7");
  REQUIRE(job.notifier.due());
  CHECK(*job.notifier.due() > 5);
  CHECK(*job.notifier.due() <= 5.2);
  job.fails(5.05, "8");
  job.notifier.tick(5.05);
  CHECK(job.read().empty());
  job.notifier.tick(*job.notifier.due());
  CHECK(job.read() == Lines{R"({"seq":1,"n":10,"done":6,"d":"r","x":{"x0":"0-3","x3":"7-8"},"end":0,"first":7})"});
  CHECK_FALSE(job.notifier.due());
}

TEST_CASE("then news are sent, successes too, at most two messages a second") {
  Job job(1000);
  job.fails(0, "0");
  std::vector<double> times;
  for (int i = 0; i < 500; ++i) {
    double now = 0.02 * i;
    auto rank = static_cast<Idset::Id>(1 + i);
    job.notifier.record(now, Idset::range(rank, rank), exit_of(0));
    if (*job.notifier.due() <= now) job.notifier.tick(now);
    for (std::size_t count = job.read().size(); count > 0; --count) times.push_back(now);
  }
  CHECK(times.size() >= 18);
  CHECK(times.size() <= 21);
  for (std::size_t i = 1; i < times.size(); ++i) CHECK(times[i] - times[i - 1] > 0.4999);
}

TEST_CASE("the end is sent at once; what has no record then never started") {
  Job job;
  job.fails(1, "4", 9);
  job.notifier.end(1, 9);
  CHECK(job.read() == Lines{R"({"seq":1,"n":10,"d":"c","x":{"x9":"4"},"end":1,"code":9})"});
  CHECK_FALSE(job.notifier.due());
  job.notifier.end(2, 3);
  job.fails(2, "5");
  CHECK(job.read().empty());
}

TEST_CASE("a failure is sent after its output has come out, and what else there is does not wait") {
  Job job;
  job.notifier.record(1, ranks("2-3"), exit_of(3));
  CHECK(job.notifier.waiting() == ranks("2-3"));
  CHECK(job.notifier.due() == 1 + Notifier::kDrainLimit);
  job.fails(2, "5");
  job.notifier.tick(2.1);
  CHECK(job.read() == Lines{R"({"seq":1,"n":10,"done":1,"d":"r","x":{"x3":"5"},"end":0})"});
  job.notifier.drained(4, ranks("3,5,7"));
  CHECK(job.notifier.waiting() == ranks("2"));
  job.notifier.tick(4.1);
  job.notifier.drained(6, ranks("2"));
  job.notifier.tick(6.1);
  CHECK(job.read() == Lines{R"({"seq":2,"n":10,"done":2,"d":"r","x":{"x3":"3"},"end":0})",
                            R"({"seq":3,"n":10,"done":3,"d":"r","x":{"x3":"2"},"end":0,"first":2})"});
}

TEST_CASE("after the drain limit a failure is sent all the same, and open names it") {
  Job job;
  job.notifier.record(1, ranks("2"), exit_of(3));
  job.notifier.record(5, ranks("6"), exit_of(3));
  job.notifier.tick(10.99);
  CHECK(job.read().empty());
  job.notifier.tick(11);
  job.notifier.tick(11.1);
  CHECK(job.read() == Lines{R"({"seq":1,"n":10,"done":1,"d":"r","x":{"x3":"2"},"end":0,"open":"2","first":2})"});
  job.notifier.end(12, 3);
  CHECK(job.read().back().find(R"("open":"6")") != std::string::npos);
}

TEST_CASE("a failure of a lost shell is sent at once, and cut names it") {
  Job job;
  job.notifier.record(1, ranks("2"), exit_of(3));
  job.notifier.lost(2, ranks("0-4"));
  job.notifier.record(2, ranks("0-1,3-4"), Record::lost());
  job.notifier.tick(2.1);
  CHECK(job.read() ==
        Lines{R"({"seq":1,"n":10,"done":5,"d":"r","x":{"l":"0-1,3-4","x3":"2"},"end":0,"cut":"2","first":2})"});
}

TEST_CASE("successes, victims, and what never ran do not wait for output") {
  Job job(10, 1, Policy(Policy::Kind::max, 0, Idset::range(77, 77)));
  job.notifier.record(1, ranks("0"), exit_of(0));
  job.notifier.record(1, ranks("1"), exit_of(77));
  job.notifier.record(1, ranks("2"), Record::victim(WaitStatus::killed(15)));
  job.notifier.record(1, ranks("3"), Record::not_started(127));
  job.notifier.record(1, ranks("4"), Record::over_time(WaitStatus::exited(0)));
  CHECK(job.notifier.waiting().empty());
  job.notifier.record(1, ranks("5"), Record::over_time(WaitStatus::killed(15)));
  job.notifier.record(1, ranks("6"), Record::of(WaitStatus::killed(11)));
  CHECK(job.notifier.waiting() == ranks("5-6"));
}

TEST_CASE("below the threshold nothing is sent, at it all is; the end is sent in any case") {
  Job job(10, 3);
  job.fails(1, "0-1");
  job.notifier.record(1, ranks("2"), exit_of(0));
  CHECK_FALSE(job.notifier.due());
  SECTION("at it") {
    job.fails(2, "9");
    job.notifier.tick(2.1);
    CHECK(job.read() ==
          Lines{R"({"seq":1,"n":10,"done":4,"d":"r","x":{"x0":"2","x3":"0-1,9"},"end":0,"first":0})"});
  }
  SECTION("the end") {
    job.notifier.end(2, 3);
    CHECK(job.client.seq() == 0);
    REQUIRE(job.read().size() == 1);
    CHECK(job.client.records() == Notice::Classes{{"x3", ranks("0-1")}, {"x0", ranks("2")}, {"c", ranks("3-9")}});
  }
}

TEST_CASE("a threshold is a number of tasks or a share of them") {
  CHECK(Notifier::threshold_of("5%", 200) == 10);
  CHECK(Notifier::threshold_of("5%", 201) == 11);
  CHECK(Notifier::threshold_of("100%", 7) == 7);
  CHECK(Notifier::threshold_of("0%", 7) == 1);
  CHECK(Notifier::threshold_of("0", 7) == 1);
  CHECK(Notifier::threshold_of("12", 7) == 12);
  for (const char* bad : {"", "%", "101%", "-1", "5 %", "half", "1.5%"}) {
    INFO(bad);
    auto wrong = Notifier::threshold_of(bad, 7);
    REQUIRE_FALSE(wrong);
    CHECK(wrong.error().message.find("0% to 100%") != std::string::npos);
  }
}

TEST_CASE("a client asks for what comes after any message; for older ones it gets one snapshot") {
  Job job(1000);
  for (Idset::Id rank = 0; rank < 100; ++rank) {
    job.notifier.record(rank, Idset::range(rank, rank), exit_of(static_cast<int>(rank % 5)));
    job.notifier.drained(rank, Idset::range(rank, rank));
    job.notifier.tick(rank + 0.5);
  }
  std::uint64_t last = job.notifier.seq();
  REQUIRE(last == 99);  // the first task succeeded
  CHECK_FALSE(job.notifier.next(last));
  CHECK(job.notifier.next(last - 1)->seq == last);
  CHECK(job.notifier.next(last - Notifier::kKept)->seq == last - Notifier::kKept + 1);
  for (std::uint64_t after : {std::uint64_t{0}, last - Notifier::kKept - 1, last + 1, last + 500, UINT64_MAX}) {
    auto snapshot = job.notifier.next(after);
    REQUIRE(snapshot);
    Notice notice = kit::decode_notice(snapshot->lines[0]).value();
    CHECK(notice.base);
    CHECK(notice.seq == last);
    CHECK(notice.done == 100);
    CHECK_FALSE(notice.end);
    kit::NoticeMap map;
    REQUIRE(map.take(notice));
    CHECK(map.ranks() == Idset::range(0, 99));
  }
  job.notifier.end(200, 4);
  CHECK_FALSE(job.notifier.next(last + 1));
  CHECK_FALSE(kit::decode_notice(job.notifier.next(last)->lines[0])->base);
  Notice whole = kit::decode_notice(job.notifier.next(last - 1)->lines[0]).value();
  CHECK(whole.base);
  CHECK(whole.end);
  CHECK(whole.summary == NoticeSummary{4, "", {}, NoticeCodes{80, 0, 4, 0.2}});
  CHECK(whole.first == 1);
}

TEST_CASE("what is kept for clients is bounded in bytes, too") {
  Job job(100000);
  for (Idset::Id step = 0; step < 60; ++step) {
    std::vector<Idset::Id> ids;
    for (Idset::Id rank = step; rank < 100000; rank += 60 + step % 7) ids.push_back(rank);
    job.notifier.record(step, Idset::of(ids), exit_of(1 + static_cast<int>(step)));
    job.notifier.drained(step, Idset::of(ids));
    job.notifier.tick(step + 0.5);
  }
  std::uint64_t last = job.notifier.seq();
  std::size_t kept = 0;
  std::size_t bytes = 0;
  for (std::uint64_t after = last - 1; after > 0; --after) {
    auto message = job.notifier.next(after);
    if (kit::decode_notice(message->lines[0])->base) break;
    ++kept;
    bytes += message->bytes();
  }
  CHECK(kept > 0);
  CHECK(kept < 60);
  CHECK(bytes <= Notifier::kKeptBytes);
}

TEST_CASE("the last message has policy and main rank where they matter") {
  Job job(4, 1, Policy(Policy::Kind::main_and_all, 2));
  job.fails(1, "2", 7);
  job.notifier.record(1, ranks("0-1,3"), exit_of(0));
  job.notifier.end(1, 7);
  CHECK(job.read() ==
        Lines{R"({"seq":1,"n":4,"d":"x0","x":{"x7":"2"},"end":1,"main":2,"code":7,"policy":"main+all"})"});
}

TEST_CASE("the last message has the codes of all where they do not follow from the records") {
  Job two(4);
  two.fails(1, "2", 7);
  two.fails(1, "0", 9);
  two.notifier.record(1, ranks("1,3"), exit_of(0));
  two.notifier.end(1, 9);
  CHECK(
      two.read().back() ==
      R"({"seq":1,"n":4,"d":"x0","x":{"x7":"2","x9":"0"},"end":1,"first":2,"code":9,"failed":2,"min":0,"max":9,"mean":4})");
  // A client cannot know that 7 is a success.
  Job counts_as_success(4, 1, Policy(Policy::Kind::max, 0, ranks("7")));
  counts_as_success.notifier.record(1, ranks("2"), exit_of(7));
  counts_as_success.notifier.record(1, ranks("0-1,3"), exit_of(0));
  counts_as_success.notifier.end(1, 0);
  CHECK(counts_as_success.read().back() ==
        R"({"seq":1,"n":4,"d":"x0","x":{"x7":"2"},"end":1,"code":0,"failed":0,"min":0,"max":0,"mean":0})");
}

TEST_CASE("of 10,000 tasks, one crash and 9,999 that it ends, each message has at most 80 bytes") {
  for (bool at_once : {false, true}) {
    Job job(10000);
    job.notifier.record(0, ranks("9998"), Record::parse("s11+").value());
    job.notifier.drained(0, ranks("9998"));
    std::size_t most = 0;
    auto read = [&](std::uint64_t after) {
      if (auto message = job.notifier.next(after)) most = std::max(most, message->bytes());
    };
    if (!at_once) job.notifier.tick(0.2);
    read(0);
    job.notifier.record(1, ranks("0-9997,9999"), Record::parse("c/s15").value());
    job.notifier.end(2, 139);
    read(0);
    read(1);
    CHECK(most > 60);
    CHECK(most <= 80);
  }
}

TEST_CASE("a job without tasks ends with one message") {
  Job job(0);
  job.notifier.end(1, 1);
  CHECK(job.read().size() == 1);
  CHECK(job.client.ended());
}
