// SPDX-License-Identifier: Apache-2.0
#include "record/entry.hpp"

#include "catch.hpp"

#include "samples.hpp"

using namespace nacre::record;  // NOLINT
using nacre::Json;

TEST_CASE("an entry reads back as it was written", "[record]") {
  JobEntry running = sample_entry(1);
  auto again = JobEntry::parse(running.text());
  REQUIRE(again);
  CHECK(*again == running);
  CHECK_FALSE(again->ended());
  CHECK(running.text().find("spares") == std::string::npos);
  JobEntry spared = running;
  spared.spares = 1;
  spared.gone = 2;
  CHECK(JobEntry::parse(spared.text()).value() == spared);
  JobEntry noted = running;
  noted.notes = {"on a made-up machine: 2x2c", "a rehearsal: kill n1"};
  CHECK(JobEntry::parse(noted.text()).value() == noted);
  noted.notes.assign(JobEntry::kMaxNotes + 1, "x");
  CHECK(JobEntry::parse(noted.text()).value().notes.size() == JobEntry::kMaxNotes);

  JobEntry ended = running;
  ended.end = EntryEnd{12.5, 3, false, "task 1 failed", exits_of({{"x0", "0,2-3"}, {"x3", "1"}}), {{"version", 1}}};
  ended.end->ran = 2.25;
  again = JobEntry::parse(ended.text());
  REQUIRE(again);
  CHECK(*again == ended);
  ended.end->rule = {{"main", 0}, {"first", "x3"}};
  ended.end->lost_output = 17;
  ended.end->timeline = {{"launch", 0.2}};
  CHECK(JobEntry::parse(ended.text()).value() == ended);
  CHECK(again->end->exits[1] == Json{{"record", "x3"}, {"count", 1}, {"ranks", "1"}});
}

TEST_CASE("members that are unknown are passed over, others are checked with their place", "[record]") {
  Json json = Json::parse(sample_entry(1).text());
  json["later"] = {{"more", 1}};
  CHECK(JobEntry::parse(json.dump()));
  auto fails = [&](const char* pointer, const Json& value, const std::string& message) {
    Json bad = json;
    bad[Json::json_pointer(pointer)] = value;
    auto parsed = JobEntry::parse(bad.dump());
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message.find(message) != std::string::npos);
  };
  fails("/entry", 2, "entry: expected");
  fails("/pid", 0, "pid: expected");
  fails("/id", "f0OIl", "id: ");
  fails("/started", -1, "started: expected");
  fails("/user", -1, "user: expected");
  fails("/command", "sh", "command: expected");
  fails("/place", 7, "place: expected");
  fails("/end", 7, "end: expected");
  fails("/end", {{"time", 1}, {"code", 256}, {"vanished", false}, {"exits", Json::array()}}, "end.code: expected");
  fails("/end", {{"time", 1}, {"code", 1}, {"vanished", false}, {"exits", Json::array()}, {"rule", 3}},
        "end.rule: expected");
  fails("/end", {{"time", 1}, {"code", 1}, {"vanished", false}, {"exits", Json::array()}, {"timeline", 3}},
        "end.timeline: expected");
  fails("/end",
        {{"time", 1},
         {"code", 1},
         {"vanished", false},
         {"exits", {{{"record", "x0"}, {"count", 1}, {"ranks", "3-1"}}}}},
        "end.exits[0].ranks: ");
}

TEST_CASE("what is too long in an entry is shortened, so that it can be read", "[record]") {
  JobEntry entry = sample_entry(1);
  entry.command.assign(3000, std::string(3, '\x01'));
  entry.cwd = std::string(100000, '\x02');
  entry.name = std::string(5000, '\x03');
  Json ranks = Json::object();
  for (int code = 0; code < 200; ++code) ranks["x" + std::to_string(code)] = std::to_string(code);
  Json report{{"version", 1}, {"timeline", std::string(40000, 'a')}, {"cause", {{"rank", 3}}}};
  entry.end = EntryEnd{1, 1, false, std::string(9000, 'c'), exits_of(ranks), report};
  CHECK(entry.end->exits.size() == JobEntry::kMaxClasses + 1);
  CHECK(entry.end->exits.back() == Json{{"record", "others"}, {"count", 136}});
  std::string text = entry.text();
  CHECK(text.size() <= JobEntry::kMaxText);
  auto again = JobEntry::parse(text);
  REQUIRE(again);
  CHECK(again->id == entry.id);
  CHECK(again->end->code == 1);
}

TEST_CASE("of a report that is too long the largest parts are left out", "[record]") {
  Json small{{"version", 1}, {"cause", {{"rank", 3}}}};
  CHECK(fitting_report(small) == small);
  Json large = small;
  large["timeline"] = std::string(40000, 'a');
  Json fitted = fitting_report(large);
  CHECK(fitted["cause"] == small["cause"]);
  CHECK(fitted["shortened"] == true);
  CHECK_FALSE(fitted.contains("timeline"));
  large["unknown"] = std::string(40000, 'a');
  CHECK(fitting_report(large) == Json{{"shortened", true}});
}

TEST_CASE("idsets of an exit map that are long are left out, their counts are kept", "[record]") {
  std::string odd;
  for (int rank = 1; rank < 20000; rank += 2) odd += (odd.empty() ? "" : ",") + std::to_string(rank);
  Json exits = exits_of({{"x1", odd}, {"x0", "0"}});
  REQUIRE(exits.size() == 2);
  CHECK(exits[0] == Json{{"record", "x0"}, {"count", 1}, {"ranks", "0"}});
  CHECK(exits[1] == Json{{"record", "x1"}, {"count", 10000}});
}

TEST_CASE("the texts of an entry", "[record]") {
  JobEntry entry;
  entry.version = "1.2";
  entry.id = nacre::value::JobId(77);
  entry.user = 1000;
  entry.pid = 4;
  CHECK(entry.text() ==
        R"({"address":"","command":[],"cwd":"","entry":1,"id":"f2L","manager":{"job":"","kind":"none","step)"
        R"(":""},"nacre":"1.2","name":"","pid":4,"place":{"boot":"","host":"","machine":"","pids":0},"shell)"
        R"(s":0,"start":0,"started":0.0,"tasks":0,"user":1000})"
        "\n");
  entry.name = "sleep";
  entry.place = {"n1", "12", "34", 56};
  entry.pid_start = 7;
  entry.address = "unix:/x";
  entry.manager = {"slurm", "9", "0"};
  entry.shells = 3;
  entry.gone = 1;
  entry.spares = 2;
  entry.restarts = 4;
  entry.tasks = 8;
  entry.command = {"sleep", "1"};
  entry.cwd = "/tmp";
  entry.started = 1700000000.5;
  entry.notes = {"a", "b"};
  EntryEnd end;
  end.time = 1700000001;
  end.code = 3;
  end.cause = "task 1 failed";
  end.exits = exits_of({{"x0", "0,2-3"}, {"x3", "1"}});
  entry.end = end;
  CHECK(entry.text() ==
        R"({"address":"unix:/x","command":["sleep","1"],"cwd":"/tmp","end":{"cause":"task 1 failed","code":)"
        R"(3,"exits":[{"count":3,"ranks":"0,2-3","record":"x0"},{"count":1,"ranks":"1","record":"x3"}],"tim)"
        R"(e":1700000001.0,"vanished":false},"entry":1,"gone":1,"id":"f2L","manager":{"job":"9","kind":"slu)"
        R"(rm","step":"0"},"nacre":"1.2","name":"sleep","notes":["a","b"],"pid":4,"place":{"boot":"34","hos)"
        R"(t":"n1","machine":"12","pids":56},"restarts":4,"shells":3,"spares":2,"start":7,"started":1700000)"
        R"(000.5,"tasks":8,"user":1000})"
        "\n");
  CHECK(JobEntry::parse(entry.text()).value() == entry);
  entry.end->report = {{"version", 1}};
  entry.end->usage = {{"tasks", 8}};
  entry.end->timeline = {{"launch", 0.25}};
  entry.end->rule = {{"main", 0}};
  entry.end->lost_output = 17;
  entry.end->ran = 2.25;
  CHECK(entry.text() ==
        R"({"address":"unix:/x","command":["sleep","1"],"cwd":"/tmp","end":{"cause":"task 1 failed","code":)"
        R"(3,"exits":[{"count":3,"ranks":"0,2-3","record":"x0"},{"count":1,"ranks":"1","record":"x3"}],"los)"
        R"(t_output":17,"ran":2.25,"report":{"version":1},"rule":{"main":0},"time":1700000001.0,"timeline":)"
        R"({"launch":0.25},"usage":{"tasks":8},"vanished":false},"entry":1,"gone":1,"id":"f2L","manager":{")"
        R"(job":"9","kind":"slurm","step":"0"},"nacre":"1.2","name":"sleep","notes":["a","b"],"pid":4,"plac)"
        R"(e":{"boot":"34","host":"n1","machine":"12","pids":56},"restarts":4,"shells":3,"spares":2,"start")"
        R"(:7,"started":1700000000.5,"tasks":8,"user":1000})"
        "\n");
  CHECK(JobEntry::parse(entry.text()).value() == entry);
}

using Kind = nacre::exits::Policy::Kind;

namespace {

constexpr std::array kAll{Kind::max, Kind::main, Kind::all, Kind::main_and_all, Kind::first};

EntryEnd ended(const std::vector<Json>& exits, const Json& rule, int code = 0) {
  EntryEnd out;
  out.code = code;
  out.exits = exits;
  out.rule = rule;
  return out;
}

std::array<int, 5> codes(const EntryEnd& end) {
  std::array<int, 5> out{};
  for (std::size_t i = 0; i < kAll.size(); ++i) out[i] = code_by(kAll[i], end).value();
  return out;
}

Json way(const char* record, const char* ranks) { return {{"record", record}, {"count", 1}, {"ranks", ranks}}; }

}  // namespace

TEST_CASE("the code by each policy, as the table of nacre-exits(7) has it") {
  CHECK(codes(ended({way("x0", "0-3")}, {{"main", 0}})) == std::array{0, 0, 0, 0, 0});
  CHECK(codes(ended({way("s11", "1"), way("c", "0,2-3")}, {{"main", 0}, {"first", "s11"}}, 139)) ==
        std::array{139, 1, 1, 1, 139});
  CHECK(codes(ended({way("x3", "5"), way("x9", "1"), way("x0", "0,2-4")}, {{"main", 0}, {"first", "x3"}}, 9)) ==
        std::array{9, 0, 1, 1, 3});
  CHECK(codes(ended({way("t", "0-3")}, {{"main", 0}, {"first", "t"}}, 124)) == std::array{124, 124, 1, 124, 124});
  CHECK(codes(ended({way("l", "2-3"), way("x0", "0-1")}, {{"main", 0}, {"first", "l"}}, 1)) ==
        std::array{1, 0, 1, 1, 1});
  CHECK(codes(ended({way("c/s15", "0-3")}, {{"main", 0}, {"fixed", true}}, 143)) ==
        std::array{143, 143, 143, 143, 143});
  CHECK(codes(ended({way("x77", "2"), way("x0", "0-1")}, {{"main", 2}, {"ok", "77"}})) ==
        std::array{0, 0, 0, 0, 0});
  CHECK(codes(ended({way("x0", "0")}, {{"main", 0}, {"least", 1}}, 1)) == std::array{1, 1, 1, 1, 1});
}

TEST_CASE("what the entry does not tell is an error") {
  auto why = [](Kind kind, const EntryEnd& end) { return code_by(kind, end).error().message; };
  EntryEnd many =
      ended({Json{{"record", "x0"}, {"count", 9}}, Json{{"record", "x4"}, {"count", 9}}}, {{"main", 0}}, 4);
  CHECK(code_by(Kind::max, many) == 4);
  CHECK(code_by(Kind::all, many) == 1);
  CHECK(why(Kind::main, many) == "which task has ended how was too long to be recorded");
  many.exits.push_back({{"record", "others"}, {"count", 9}});
  CHECK(why(Kind::max, many) == "the job's tasks have ended in more ways than were recorded");
  CHECK(why(Kind::max, ended({way("x0", "0")}, Json())) == "an older nacre has recorded its end");
  CHECK(why(Kind::max, ended({way("?", "0")}, {{"main", 0}})).starts_with("exits[0].record: "));
  CHECK(why(Kind::max, ended({way("x0", "0")}, Json::object())).find("main") != std::string::npos);
  EntryEnd gone = ended({}, {{"main", 0}});
  gone.vanished = true;
  CHECK(why(Kind::max, gone).starts_with("its leader has gone"));
}
